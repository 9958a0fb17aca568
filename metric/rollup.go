package metric

import "iter"

// RollUp makes a query answer one point for all selected objects: their series are read as if they
// were label sets of one object. Of objects that have the metric in different kinds, only one kind
// is read. For last and total, the point's time is that of the object whose newest sample is
// oldest.
type RollUp struct {
	// Object is the object of the point.
	Object Object
	// Each, if not nil, is called with each object that has a matching series, in the order of
	// names.
	Each func(Object)
}

// PodCount is the number of pods behind a roll-up.
type PodCount struct {
	With int32 // pods that have a value, or read 0
	Of   int32 // all live pods
}

// PodSet is a set of live pods.
type PodSet struct {
	All iter.Seq[Object]
	// Ready yields the ready ones that have a controller, with their workloads.
	Ready iter.Seq2[Object, Workload]
	Len   int
}

// PodOwner is an object with its pods.
type PodOwner struct {
	Object Object
	Pods   PodSet
}
