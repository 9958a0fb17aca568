package aggregate

import (
	"sync"
	"unsafe"
)

// pool is memory for things of one size without pointers, numbered from 1. Taking and giving back lock.
type pool struct {
	memory *arena
	size   int
	most   uint32

	mu   sync.Mutex
	next uint32
	free []uint32
}

// open reserves addresses for most things of a size.
func (p *pool) open(size, most int) {
	p.size, p.most, p.next = (size+7)/8*8, uint32(most), 1
	p.memory = newArena(most * p.size)
}

func (p *pool) at(i uint32) unsafe.Pointer {
	return unsafe.Add(p.memory.base, uintptr(i)*uintptr(p.size))
}

func (p *pool) take() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	i := p.next
	if i == p.most || !p.memory.reach((int(i)+1)*p.size) {
		return 0
	}
	p.next++
	return i
}

func (p *pool) give(i uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, i)
}

// Locker is the pool's lock. The test of A1 holds it to show that writers never wait for it.
func (p *pool) Locker() sync.Locker { return &p.mu }
