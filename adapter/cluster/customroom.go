package cluster

import "fmt"

// Bounds of the specs of custom objects.
const (
	// maxSpec bounds one spec.
	maxSpec = 64 << 10
	// freeSpecs of each namespace take nothing of maxSpecs, which all specs of a resource may take beyond.
	freeSpecs = 1 << 20
	maxSpecs  = 32 << 20
)

// keptIn is the object, or the object without its spec if that is too large, or there is no room for it. Only administrators
// write the objects of the cluster, which have no bound.
func (o *CustomObject) keptIn(r *objectRoom) *CustomObject {
	key, n := objectName{o.Namespace, o.Name}, len(o.Spec)
	switch {
	case o.Namespace == "":
		return o
	case n > maxSpec:
		r.free(key)
		return o.withoutSpec(fmt.Sprintf("it has %d bytes in JSON; must have at most %d", n, maxSpec))
	case !r.take(key, int64(n)):
		return o.withoutSpec("the objects of its namespace leave no room for it; must be fewer or smaller: delete some, then change this one")
	}
	return o
}

func (o *CustomObject) withoutSpec(fault string) *CustomObject {
	short := *o
	short.Spec, short.Fault = nil, fault
	return &short
}
