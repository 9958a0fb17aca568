package exposition

// slabList is a growing list within a slab that it shares with other lists, so that the memory of a
// grown slab suffices for a body of any shape. The last list of a slab grows in place. Any other
// list moves to the end, with spare capacity: as with append, each element is copied a bounded
// number of times on average.
type slabList struct{ at, length, capacity int32 }

// view returns the list's elements; they are valid until the list grows.
func view[T any](slab []T, r slabList) []T {
	end := r.at + r.length
	return slab[r.at:end:end]
}

// insert puts an element before the i-th of the list, and returns the slab.
func insert[T any](slab []T, r *slabList, i int, element T) []T {
	if r.length == r.capacity {
		slab = makeRoom(slab, r)
	}
	r.length++
	elements := slab[r.at : r.at+r.length]
	copy(elements[i+1:], elements[i:])
	elements[i] = element
	return slab
}

func makeRoom[T any](slab []T, r *slabList) []T {
	var none T
	if int(r.at+r.capacity) == len(slab) {
		r.capacity++
		return append(slab, none)
	}
	more := r.capacity
	if r.capacity == 0 {
		more = 1
	}
	at := int32(len(slab))
	slab = append(slab, slab[r.at:r.at+r.length]...)
	for range more {
		slab = append(slab, none)
	}
	r.at, r.capacity = at, r.length+more
	return slab
}
