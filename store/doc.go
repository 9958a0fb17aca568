// Package store persists the table's values and windows, and documents, so they survive a restart.
// It comes after the table, which it sees as blocks of series through the interface Table; whatever
// the table appends is opaque to it.
//
//	flush.go              each flush; it uses batch.go (transactions), documents.go and the pacer of pause.go
//	publish.go            the same changes for a Publisher, also while the disk can't be written
//	sync.go               Sync, and each fsync
//	start.go, restore.go  opening the database, and reading it back into the table
//	pause.go              persistence stops on a full or failing disk, and resumes
//	run.go, store.go      the goroutines, and the Store that they share
//
//	store/format          the keys and values of the database, without I/O
//	store/folder          the data folder: marker, lock, databases that were set aside
//	store/wal             Badger's logs, read without Badger
//	store/database        Badger: its only importer, with the checks before it and its own process
//
// Run asks every block, once a flush interval, for its changes (a delta), and writes a rotating
// share of the blocks whole (a checkpoint), and those with large deltas. A block is its last
// checkpoint and the newer deltas. Open restores both. What is written is with the storage process,
// and survives the death of this one; what is synced survives the loss of power.
//
// Invariants, each held by a test:
//
//	S1 A restored block is a state that the block once had. Each delta names the write before it
//	   and is replayed only if that one was, so a lost write hides all later ones.
//	S2 A long value is readable as a whole or not at all. Its parts are written first and the head
//	   that names them last, and never over parts that a valid head names.
//	S3 A delta is overwritten or deleted only when a checkpoint has made it worthless.
//	S4 After a failed write, the next successful flush writes a checkpoint of each affected block.
//	S5 Whatever is written when a flush has returned survives the death of the process.
//	S6 The Publisher receives every delta once and in order, whatever state the disk is in. While
//	   the disk keeps up, it sends none that a kill would take back.
//	S7 A document that follows is never on disk without all changes of the table and of documents
//	   that came before it.
//	S8 A new database has all documents before it has a block, and says that it is unfinished until
//	   it has all blocks.
//
// Ingest never waits for the store: one goroutine flushes, one syncs, and while the disk is slow,
// full or failing, Lag grows and Detail says why. The store never deletes data that it can't read:
// it renames a database that it can't trust, and rejects a folder that isn't its own.
package store
