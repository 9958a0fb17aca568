package memory

import (
	"math"
	"slices"
	"sync"
	"unsafe"
)

// Pool allocates pointer-free objects of one size, numbered from 1. Alloc and Free take its lock.
type Pool struct {
	memory *Arena
	size   int
	most   uint32

	mu       sync.Mutex
	next     uint32
	freeList []uint32
}

// Open reserves addresses for up to limit objects of a size.
func (p *Pool) Open(size, limit int) {
	p.size, p.most, p.next = (size+7)/8*8, uint32(limit), 1
	p.memory = NewArena(limit * p.size)
}

// At returns the address of an object.
func (p *Pool) At(i uint32) unsafe.Pointer {
	return unsafe.Add(p.memory.Base, uintptr(i)*uintptr(p.size))
}

// Alloc returns the number of an object with undefined contents, or 0 if there is no memory.
func (p *Pool) Alloc() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.freeList); n > 0 {
		i := p.freeList[n-1]
		p.freeList = p.freeList[:n-1]
		return i
	}
	i := p.next
	if i == p.most || !p.memory.Grow((int(i)+1)*p.size) {
		return 0
	}
	p.next++
	return i
}

func (p *Pool) Free(i uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeList = append(p.freeList, i)
}

// Locker returns the pool's lock. The test of A1 holds it to show that writers never wait for it.
func (p *Pool) Locker() sync.Locker { return &p.mu }

// SizeClasses allocates pointer-free pieces of a few sizes. All pieces are in one arena. The number
// of a piece is its offset in grains, from 1. A freed piece is added to the free list of its class
// and reused for that class only.
type SizeClasses struct {
	grain int
	sizes []int // bytes, ascending, multiples of the grain

	mu        sync.Mutex
	memory    *Arena
	next      uint32     // the first number never used
	freeLists [][]uint32 // by class
	allocated int
}

// NewSizeClasses reserves the addresses that 32-bit numbers of grains can reach.
func NewSizeClasses(grain int, sizes []int) *SizeClasses {
	return &SizeClasses{grain: grain, sizes: sizes, memory: NewArena(grain * (math.MaxUint32 + 1)), next: 1,
		freeLists: make([][]uint32, len(sizes))}
}

// Class returns the smallest class with at least this size, or the largest class if there is none.
func (s *SizeClasses) Class(bytes int) int {
	class, _ := slices.BinarySearch(s.sizes, bytes)
	return min(class, len(s.sizes)-1)
}

// At returns the address of a piece.
func (s *SizeClasses) At(number uint32) unsafe.Pointer {
	return unsafe.Add(s.memory.Base, uintptr(number)*uintptr(s.grain))
}

// Alloc returns a piece with undefined contents, or 0 if there is no memory.
func (s *SizeClasses) Alloc(class int) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.freeLists[class]; len(list) > 0 {
		s.freeLists[class] = list[:len(list)-1]
		s.allocated++
		return list[len(list)-1]
	}
	grains := uint32(s.sizes[class] / s.grain)
	if s.next+grains < s.next || !s.memory.Grow(int(s.next+grains)*s.grain) {
		return 0
	}
	number := s.next
	s.next += grains
	s.allocated++
	return number
}

func (s *SizeClasses) Free(number uint32, class int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeLists[class] = append(s.freeLists[class], number)
	s.allocated--
}

// Used returns the number of allocated pieces, and the bytes of all pieces that were ever
// allocated.
func (s *SizeClasses) Used() (pieces int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allocated, int64(s.next) * int64(s.grain)
}

// Locker returns the allocator's lock. The test of A1 holds it to show that writers never wait for
// it.
func (s *SizeClasses) Locker() sync.Locker { return &s.mu }
