package aggregate

import (
	"math"
	"slices"
	"sync"
	"unsafe"
)

// sizeClasses is an allocator for pointer-free pieces of a few sizes. Pieces lie in one arena and are numbered from 1, in
// units of the grain. A freed piece goes to the free list of its size and is reused for that size only.
type sizeClasses struct {
	grain int
	sizes []int // bytes, ascending, multiples of the grain

	mu     sync.Mutex
	memory *arena
	next   uint32     // the first number never used
	free   [][]uint32 // by class
	taken  int
}

// newSizeClasses reserves as many addresses as 32-bit numbers of grains reach.
func newSizeClasses(grain int, sizes []int) *sizeClasses {
	return &sizeClasses{grain: grain, sizes: sizes, memory: newArena(grain * (math.MaxUint32 + 1)), next: 1, free: make([][]uint32, len(sizes))}
}

// class is the smallest class of at least so many bytes, or else the largest.
func (s *sizeClasses) class(bytes int) int {
	class, _ := slices.BinarySearch(s.sizes, bytes)
	return min(class, len(s.sizes)-1)
}

func (s *sizeClasses) at(number uint32) unsafe.Pointer {
	return unsafe.Add(s.memory.base, uintptr(number)*uintptr(s.grain))
}

// alloc hands out a piece with undefined contents. 0: there is no memory.
func (s *sizeClasses) alloc(class int) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.free[class]; len(list) > 0 {
		s.free[class] = list[:len(list)-1]
		s.taken++
		return list[len(list)-1]
	}
	grains := uint32(s.sizes[class] / s.grain)
	if s.next+grains < s.next || !s.memory.reach(int(s.next+grains)*s.grain) {
		return 0
	}
	number := s.next
	s.next += grains
	s.taken++
	return number
}

func (s *sizeClasses) release(number uint32, class int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[class] = append(s.free[class], number)
	s.taken--
}

// used is how many pieces are handed out, and the bytes of all that were ever used.
func (s *sizeClasses) used() (pieces int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, int64(s.next) * int64(s.grain)
}

// Locker is the allocator's lock. The test of A1 holds it to show that writers never wait for it.
func (s *sizeClasses) Locker() sync.Locker { return &s.mu }
