package memory

import (
	"runtime"
	"testing"
	"unsafe"
)

// An arena grows in place: what was written stays where it was, what is new is zero, and the end is
// the end.
func TestArenaGrowsInPlace(t *testing.T) {
	const size = 6 << 20
	a := NewArena(size)
	if uintptr(a.Base)%8 != 0 {
		t.Errorf("base %p", a.Base)
	}
	word := func(at int) *uint64 { return (*uint64)(unsafe.Add(a.Base, at)) }
	for at := 0; at+8 <= size; at += 4096 {
		if !a.Grow(at + 8) {
			t.Fatalf("%d of %d bytes cannot be reached", at+8, size)
		}
		if *word(at) != 0 {
			t.Fatalf("byte %d is not zero", at)
		}
		*word(at) = uint64(at)
	}
	for at := 0; at+8 <= size; at += 4096 {
		if *word(at) != uint64(at) {
			t.Fatalf("byte %d changed", at)
		}
	}
	if a.Grow(a.reserved + 1) {
		t.Error("more was reached than there is")
	}
	runtime.KeepAlive(a)
}
