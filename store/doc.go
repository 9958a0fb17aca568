// Package store persists the table's values and windows in Badger, so they survive a restart. It is the only
// importer of Badger.
//
// Before it stands the table, which it sees as blocks of series through the interface Table that it
// declares; all that the table hands over is opaque to it. After it stands the disk. At Open it gives the
// table back what was there; Run then asks every block, every flush interval, what changed (a delta), and
// writes a rotating share of the blocks whole (a checkpoint). A block is its last checkpoint and the deltas
// that are newer:
//
//	v                    magic and format version
//	k                    sequence and the table's clock, with every batch
//	c <block>            checkpoint: sequence, which names belong to it, the block's state
//	n <block>            names: identities of the block's series, in one transaction with a checkpoint
//	d <block> <slot>     delta: its sequence and that of the write before it
//	p <key> <generation> <part>   pieces of a value that is too long for one entry
//
// Invariants, each held by a test:
//
//	S1 A restored block is a state that the block once had: deltas are replayed only as far as each names
//	   the one before it, so a write that was lost, by an error or with the power, hides what came after.
//	S2 A long value is readable as a whole or not at all: parts first, the head that names them last, and
//	   never over the parts that the valid head names.
//	S3 A delta's slot is reused only when a checkpoint has made its old content worthless.
//	S4 A failed write is made good by a checkpoint of its block at the next success.
//	S5 What is on disk when a flush has returned survives the death of the process.
//
// It never makes ingest wait: one goroutine flushes, one syncs, and a disk that is slow, full or broken
// makes Lag grow and Detail speak. It never deletes what it cannot read: a database that cannot be trusted
// is renamed, and a directory that is not its own is left alone.
//
// Badger maps its files into memory and ends the process where a file is not what it expected, and stops it where the
// disk stands still. Hence what is done before it may open one: see manifest.go, log.go, trial.go, space.go and
// reserve.go; and hence it has a process of its own once the table is restored: see apart.go.
package store
