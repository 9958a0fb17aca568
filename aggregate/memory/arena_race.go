//go:build race

package memory

import "unsafe"

// Arena is the arena of arena.go on Go's heap, because the race detector sees neither races nor
// atomics outside of the heap. It is small, because the detector multiplies its memory, and wholly
// usable from the start.
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

// Touch does nothing: another goroutine may be writing to p.
func Touch(unsafe.Pointer) {}
