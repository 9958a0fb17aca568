//go:build race

package memory

import "unsafe"

// Arena is what arena.go says, on Go's heap: the race detector sees nothing outside of it, neither a race nor the atomics that
// prevent one. It is all usable at once, and small, for the detector takes several times as much.
type Arena struct {
	Base     unsafe.Pointer
	reserved int
}

const mostRaced = 8 << 20

func NewArena(size int) *Arena {
	words := make([]uint64, min(size, mostRaced)/8)
	return &Arena{Base: unsafe.Pointer(unsafe.SliceData(words)), reserved: len(words) * 8}
}

func (a *Arena) Grow(size int) bool { return size <= a.reserved }

// Touch does nothing: what lies at p may be written to at this moment.
func Touch(unsafe.Pointer) {}
