// Package aggregate is the table of live series: it takes samples from any number of writers without a
// lock or an allocation, keeps the windows that readers may ask for, and answers queries.
//
// Before it stand the receivers, each goroutine with a Writer of its own; after it the metrics APIs, which
// call Objects and External, and the store, which copies out what changed. It opens no socket, knows no
// wire format and imports nothing of Kubernetes.
//
// # How a sample gets in
//
// A Writer hashes the name and tag bytes as they stand on the wire and finds the series in the aliases
// (aliases.go), adds to its cell (cell.go), and marks the cell dirty. That is all: no lock, no clock, no channel.
// Lines of StatsD are looked up many at a time, before they are parsed: most are known but for their value (recall.go).
// Only a line never seen before takes the long way (create.go): it is described (identity), found by its
// canonical form or created under the lock of one shard, and remembered as an alias.
//
// What a client has added up itself comes once a push, not once a request, and takes another way (push.go): a running total
// (running.go) or a histogram (pushed.go) is compared with the one before it, and what it has grown by counts.
//
// # How windows come about
//
// Cells only ever grow (counters) or stand (gauges). The roller (roll.go) visits dirty cells and notes the
// value under the current tick in a log (past.go, notes.go); a window is the difference between now and the
// note at its far end. Nothing is reset, so nothing can fall between two windows. Timers (timer.go) and sets
// (set.go) note what a tick added.
//
// # Who owns what
//
//   - A cell's value belongs to the writers; only atomics touch it.
//   - All that the roller notes (pasts, logs, slots) belongs to whoever holds the block's history lock: the
//     roller, a reader, the store, a push. Writers never take that lock for any other sample.
//   - A series' identity is written once, before it is published by its state; it is cleared under the history
//     lock after every writer has passed a batch boundary (epoch.go, evict.go, bury.go).
//
// # Invariants
//
// Each is named by a test.
//
//   - A1 Writers never wait: no mutex and no channel on the path of a sample of a known series. A push may wait: for a
//     reader, the roller or the store, each at one series.
//   - A2 Nothing is lost or counted twice: for the counters, applied = Σ live + Σ retired, exactly. Of a running total the
//     growth is applied; where it began is in no sum.
//   - A3 No allocation per sample at steady state.
//   - A4 A read never blocks a writer, and one answer comes from one snapshot.
//   - A5 The cost of a tick grows with the active series, and no slice of it is longer than a millisecond.
//   - A6 Memory per series is bounded, and what is evicted is used again.
package aggregate
