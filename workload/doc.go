// Package workload remembers which counters and sets the pods of a workload have pushed. By that, a live pod that has
// pushed none of them reads 0 instead of "not found", also when the pod that pushed is gone.
//
// Before it comes the table, which tells of each new series (Born); after it come the metrics API, which asks what a
// workload has pushed (By), and the store, which keeps each workload as a document.
//
// It never decides which pods there are, and holds no values.
package workload
