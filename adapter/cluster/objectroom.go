package cluster

import (
	"fmt"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// Bounds of the specs of custom objects and of autoscalers. The API server bounds a whole object only, by 1.5 MiB, and their
// number by nothing.
const (
	// maxSpec bounds one spec.
	maxSpec = 64 << 10
	// freeRoom of each namespace takes nothing of maxRoom, which all specs of a resource may take beyond.
	freeRoom = 1 << 20
	maxRoom  = 32 << 20
)

// objectRoom is the memory of the specs of a resource. Of all namespaces, one has at most three times what is left, beside
// what is free. One goroutine uses it.
type objectRoom struct {
	room  *fair.Room[string, int64]
	taken map[objectName]int64
}

func newObjectRoom() *objectRoom {
	return &objectRoom{fair.NewRoomBeyond[string](int64(freeRoom), maxRoom), map[objectName]int64{}}
}

// take takes n bytes for an object, in the place of that which had its name.
func (r *objectRoom) take(namespace, name string, n int64) bool {
	r.leave(namespace, name)
	if !r.room.Take(namespace, n) {
		return false
	}
	r.taken[objectName{namespace, name}] = n
	return true
}

// leave gives back the room of an object.
func (r *objectRoom) leave(namespace, name string) {
	key := objectName{namespace, name}
	r.room.Give(namespace, r.taken[key])
	delete(r.taken, key)
}

// keptIn is an object for which there is room, or the object without its spec. Only administrators write the objects of the
// cluster, which have no bound.
func (o *CustomObject) keptIn(r *objectRoom) *CustomObject {
	if o.Namespace == "" || r.take(o.Namespace, o.Name, int64(len(o.Spec))) {
		return o
	}
	return o.withoutSpec("the objects of its namespace leave no room for it; must be fewer or smaller: delete some, then change this one")
}

// bounded is an object without its spec if that is too large.
func (o *CustomObject) bounded() *CustomObject {
	if n := len(o.Spec); o.Namespace != "" && n > maxSpec {
		return o.withoutSpec(fmt.Sprintf("it has %d bytes in JSON; must have at most %d", n, maxSpec))
	}
	return o
}

func (o *CustomObject) withoutSpec(fault string) *CustomObject {
	short := *o
	short.Spec, short.Fault = nil, fault
	return &short
}
