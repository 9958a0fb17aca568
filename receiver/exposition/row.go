package exposition

// row is a growing list within a slab that it shares with other lists, so that a body of any shape costs no memory of
// its own once the slab has grown. The last row of a slab grows in place. One that others stand behind moves to the
// end, with room to spare: as with append, each element is copied a bounded number of times on average.
type row struct{ at, length, room int32 }

// view is the row's elements; it is right until the row grows.
func view[T any](slab []T, r row) []T {
	end := r.at + r.length
	return slab[r.at:end:end]
}

// insert puts an element before the i-th of the row, and returns the slab.
func insert[T any](slab []T, r *row, i int, element T) []T {
	if r.length == r.room {
		slab = makeRoom(slab, r)
	}
	r.length++
	elements := slab[r.at : r.at+r.length]
	copy(elements[i+1:], elements[i:])
	elements[i] = element
	return slab
}

func makeRoom[T any](slab []T, r *row) []T {
	var none T
	if int(r.at+r.room) == len(slab) {
		r.room++
		return append(slab, none)
	}
	more := r.room
	if r.room == 0 {
		more = 1
	}
	at := int32(len(slab))
	slab = append(slab, slab[r.at:r.at+r.length]...)
	for range more {
		slab = append(slab, none)
	}
	r.at, r.room = at, r.length+more
	return slab
}
