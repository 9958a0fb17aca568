package aggregate

import (
	"sync"
	"unsafe"
)

// mostPooled is far beyond the series there may be: each has one at most.
const mostPooled = 2 * maxBlocks * blockSeries

// pool is memory for things of one size without pointers, numbered from 1. Taking and giving back lock.
type pool struct {
	memory *arena
	size   int

	mu   sync.Mutex
	next uint32
	free []uint32
}

func (p *pool) open(size int) {
	p.size, p.next = (size+7)/8*8, 1
	p.memory = newArena(mostPooled * p.size)
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
	if i == mostPooled || !p.memory.reach((int(i)+1)*p.size) {
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
