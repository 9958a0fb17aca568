//go:build race

package aggregate

import "unsafe"

// arena is what arena.go says, on Go's heap: the race detector sees nothing outside of it, neither a race nor the atomics that
// prevent one. It is all usable at once, and small, for the detector takes several times as much.
type arena struct {
	base     unsafe.Pointer
	reserved int
}

const mostRaced = 8 << 20

func newArena(size int) *arena {
	words := make([]uint64, min(size, mostRaced)/8)
	return &arena{base: unsafe.Pointer(unsafe.SliceData(words)), reserved: len(words) * 8}
}

func (a *arena) reach(size int) bool { return size <= a.reserved }

// touch does nothing: what lies at p may be written to at this moment.
func touch(unsafe.Pointer) {}
