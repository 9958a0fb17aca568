package cluster

import "fmt"

// Bounds of custom objects.
const (
	// maxSpec bounds one spec.
	maxSpec = 64 << 10
	// maxStatus bounds a status. Those that Sluice writes are smaller, and it replaces one that is not kept.
	maxStatus = 16 << 10
	// customObjectBytes is what an object takes beside its spec: half of it here and in its status, half in package customkind.
	customObjectBytes = 4 << 10
	// freeSpecs of each namespace take nothing of maxSpecs, which all objects of a resource may take beyond.
	freeSpecs = 1 << 20
	maxSpecs  = 32 << 20
)

// noRoom is the fault of an object without room. All of them share the text.
const noRoom = "the objects of its namespace leave no room for it; must be fewer or smaller: delete some, then change this one"

// keptIn is the object, or the object without its spec if that is too large, or there is no room for it. Only administrators
// write the objects of the cluster, which have no bound.
func (o *CustomObject) keptIn(r *objectRoom) *CustomObject {
	if len(o.Status) > maxStatus {
		o.Status = nil
	}
	key, n := objectName{o.Namespace, o.Name}, len(o.Spec)
	switch {
	case o.Namespace == "":
		return o
	case n > maxSpec:
		r.free(key)
		return o.withoutSpec(fmt.Sprintf("it has %d bytes in JSON; must have at most %d", n, maxSpec))
	case !r.take(key, int64(n+customObjectBytes)):
		return o.withoutSpec(noRoom)
	}
	return o
}

func (o *CustomObject) withoutSpec(fault string) *CustomObject {
	short := *o
	short.Spec, short.Fault = nil, fault
	return &short
}
