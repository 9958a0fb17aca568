// Package workload remembers which counters and sets the pods of a workload have pushed. A ready
// pod that pushed none of them then reads 0 instead of "not found", even after the pod that pushed
// is gone.
//
// The table reports each new series (SeriesCreated). The metrics APIs ask which metrics a workload
// has pushed (PushedKind). The store keeps a document per workload.
//
// The package does not know which pods exist, and holds no values.
package workload
