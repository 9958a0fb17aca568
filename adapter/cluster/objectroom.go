package cluster

import "github.com/sluice-metrics/sluice/internal/fair"

// objectRoom is the memory of what objects of one kind take. The API server bounds a whole object only, by 1.5 MiB, and their
// number by nothing. Of all namespaces, one has at most three times what is left, beside what is free.
//
// The goroutine that watches the kind takes the room of an object as it converts it: a first list is converted whole before
// any of it is indexed. Only that goroutine calls the methods.
type objectRoom struct {
	room  *fair.Room[string, int64]
	taken map[objectName]int64 // without zeros
}

// newObjectRoom is a room of which each namespace has some bytes free, and all have the most beyond together.
func newObjectRoom(free, most int64) objectRoom {
	return objectRoom{fair.NewRoomBeyond[string](free, most), map[objectName]int64{}}
}

// take takes n bytes for an object, instead of what it had, or returns false. One that does not grow keeps its room, whatever
// others have taken meanwhile.
func (r *objectRoom) take(key objectName, n int64) bool {
	if n > 0 && n <= r.taken[key] {
		r.room.Give(key.namespace, r.taken[key]-n)
		r.taken[key] = n
		return true
	}
	r.free(key)
	if n == 0 {
		return true
	}
	if !r.room.Take(key.namespace, n) {
		return false
	}
	r.taken[key] = n
	return true
}

// free gives the room of an object back.
func (r *objectRoom) free(key objectName) {
	if n := r.taken[key]; n > 0 {
		r.room.Give(key.namespace, n)
		delete(r.taken, key)
	}
}

// freeOthers gives the room of all objects back but of those that are indexed, after a list: some may have been converted
// for a list that was never complete.
func (r *objectRoom) freeOthers(indexed func(objectName) bool) {
	for key := range r.taken {
		if !indexed(key) {
			r.free(key)
		}
	}
}
