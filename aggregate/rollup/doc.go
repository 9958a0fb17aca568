// Package rollup answers queries as all readers get them: the metrics APIs, GET /v1, KEDA, the
// watcher of autoscalers and the console. It stands between them and the table.
//
// The table answers for objects that have series. This package adds two answers:
//
//   - A ready pod that never pushed a counter or a set reads 0, once another pod of its workload has
//     pushed it (docs/adr/0040; zero.go).
//   - An object without a series of its own is answered by the series of its pods: those that a
//     workload owns, or that a Service routes to (docs/adr/0060; rollup.go).
//
// A Moment answers several queries as of one moment.
//
// A Tracker remembers which counters and sets the pods of a workload have pushed, even after the pod that
// pushed is gone. The table reports each new series (SeriesCreated); the store keeps a document per workload.
//
// The package holds no values, selects no pods by their labels, and asks nobody about rights.
package rollup
