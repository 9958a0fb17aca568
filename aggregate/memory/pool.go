package memory

import (
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

// Open reserves addresses for up to most objects of a size.
func (p *Pool) Open(size, most int) {
	p.size, p.most, p.next = (size+7)/8*8, uint32(most), 1
	p.memory = NewArena(most * p.size)
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
