// Package aggregate is the table of live series. It takes samples from any number of writers
// without a lock or an allocation, keeps the windows that readers may ask for, and answers queries.
//
// Before it stand the receivers: each goroutine has a Writer of its own. After it stand the metrics
// APIs, which call Objects and External, and the store, which copies out changes. The package opens
// no socket, knows no wire format and imports nothing of Kubernetes.
//
// # Packages below
//
//		aggregate ─► kind ─► window ─► memory
//		    ├──────► lookup ─────────► memory
//		    └──────► index ──► lookup
//
//	  - kind: counter, gauge, timer and set; each one's apply, record, read, save and restore
//	  - window: clocks, windows and the history of a number
//	  - lookup: the line cache, from the bytes of a line to its series
//	  - index: series as readers ask for them, by resource, namespace, name and object
//	  - memory: arenas, free lists and epoch-based reclamation
//	  - blob: the varints of saved state
//
// # How a sample becomes an increment
//
// A Writer looks up StatsD lines many at a time, before they are parsed (lines.go): most
// differ from an earlier line in the value alone. It adds to the cell of the series (kind.Cell) and
// marks the cell dirty: no lock, no clock, no channel. A line never seen before takes the slow path
// (create.go): the table describes it, finds or creates its series under the lock of one shard, and
// remembers the line as an alias.
//
// Clients push running totals and histograms at intervals, not once per request. These take the
// history lock (writer.go); their growth since the previous push counts.
//
// # How windows are computed
//
// Cells of counters only grow. The roller (roll.go) visits dirty cells and records their values in
// the history under the current tick. A window is the difference between now and the entry at the
// window's far end. Nothing is reset, so no increment falls between two windows.
//
// # Ownership
//
//   - A cell's value belongs to the writers; only atomics touch it.
//   - Histories and the records of timers and sets belong to the holder of the block's history
//     lock: the roller, a reader, the store or a push. Writers take that lock for no other sample.
//   - The creator writes a series' identity before the cell's state publishes it. The identity is
//     cleared under the history lock after every writer was quiescent (expiry.go, reclaim.go).
//
// # Shadows
//
// A Shadow (shadow.go) is the table of another replica, copied by replaying what that replica
// saves. It has no writers and no roller. One goroutine replays, and takes a block's history lock
// for each series that it changes; the same lock guards the identity when a series dies. Merged
// answers from the own table and the shadows together.
//
// # Invariants
//
// Each is named by a test; TestEveryInvariantHasATest checks that.
//
//   - A1 Writers never wait: no mutex and no channel on the path of a sample of a known series. A
//     push may wait for a reader, the roller or the store, each at one series.
//   - A2 Nothing is lost or counted twice: for counters, applied = Σ live + Σ retired, exactly. Of
//     a running total the growth is applied; the value at its first push is in no sum.
//   - A3 No allocation per sample at steady state.
//   - A4 A read never blocks a writer, and one answer comes from one snapshot.
//   - A5 The cost of a tick grows with the active series, and no slice of it takes longer than a
//     millisecond.
//   - A6 Memory per series is bounded, and memory of evicted series is reused.
package aggregate
