// Package replica joins processes into one: each publishes what it counted itself, and holds a
// shadow of each other's state (docs/adr/0049). It follows the store, whose flushes it publishes,
// and precedes the table's readers, which see the shadows.
//
// It never counts or stores anybody else's state, forwards it only while its origin is away, and
// never stands on the path of a line.
//
// # Terms
//
// An origin is a table that receives, with an epoch: a random number that is stored beside the
// table, and lost with it. An incarnation is one run of its process, numbered by its start; a
// restored table begins a new incarnation of its epoch. A follower keeps the shadow of one epoch.
//
// # Messages
//
// An origin publishes a delta for each block that changed in a flush, then a heartbeat. Deltas of a
// block are numbered within the incarnation. A follower collects deltas until the heartbeat of
// their flush and applies all of them at once, when none is missing, so the clock of the shadow and
// its values belong together. A heartbeat has a digest of all blocks' numbers. A follower that lacks
// a delta asks for the whole block, as does one that hears that a delta was too large to be sent. One
// whose digest differs without a known gap asks for the list of numbers.
//
// A replica that has a shadow of an origin that is away relays it to replicas that lack it, or a
// part of it (docs/adr/0053). Each block has a version, whose order is that of its contents.
//
// # Invariants
//
//	R1  A shadow is what one origin counted: an answer has each sample once, whatever was lost,
//	    doubled, delayed or reordered.
//	R2  Blocks of an older incarnation stay visible until those of the newer replace them.
//	R3  A block's delta is applied on the delta before it, or on a whole block that includes that.
//	R4  Once messages arrive again, each shadow equals its origin after a few heartbeats; in a block
//	    that was too large to be sent, bins and members of large series do after a window.
//	R5  A message that this package did not write is rejected. It costs bounded memory and work.
//	R6  The flush goroutine never waits for a replica.
package replica
