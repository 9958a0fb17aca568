//go:build !race

package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Arena is one piece of memory without pointers, outside Go's heap, that grows in place up to what was reserved: what lies in
// it is found by a product and a sum, whereas chunks of the heap take a load each from a directory. The collector
// neither scans it nor lets the heap grow by as much again, and the kernel may back it with huge pages, which spare most of
// what a scattered access costs at a million series.
type Arena struct {
	Base     unsafe.Pointer
	reserved int
	usable   atomic.Int64 // bytes from base on

	mu sync.Mutex // of who grows it
}

const (
	hugePage = 2 << 20
	// arenaStep is what a small arena grows by; a larger one grows by a quarter.
	arenaStep = 64 << 10
)

// NewArena reserves addresses, no memory. Where the system has less to give, it reserves less.
func NewArena(size int) *Arena {
	for size = roundUp(size, hugePage); size >= hugePage; size = roundUp(size/2, hugePage) {
		mapped, err := unix.Mmap(-1, 0, size+hugePage, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
		if err != nil {
			if size == hugePage {
				break
			}
			continue
		}
		base := unsafe.Pointer(unsafe.SliceData(mapped))
		a := &Arena{Base: unsafe.Add(base, -uintptr(base)&(hugePage-1)), reserved: size}
		runtime.AddCleanup(a, func(mapped []byte) { _ = unix.Munmap(mapped) }, mapped)
		return a
	}
	return &Arena{}
}

// Grow makes the first bytes usable; what is new is zero. False: there is no more memory.
func (a *Arena) Grow(size int) bool {
	if int64(size) <= a.usable.Load() {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	have := int(a.usable.Load())
	if size <= have {
		return true
	}
	if size > a.reserved {
		return false
	}
	want := max(size, have+max(arenaStep, have/4))
	step := arenaStep
	if want > hugePage {
		step = hugePage
	}
	want = min(roundUp(want, step), a.reserved)
	fresh := unsafe.Slice((*byte)(unsafe.Add(a.Base, have)), want-have)
	if unix.Mprotect(fresh, unix.PROT_READ|unix.PROT_WRITE) != nil {
		return false
	}
	if want > hugePage {
		adviseHugePages(unsafe.Slice((*byte)(a.Base), want))
	}
	a.usable.Store(int64(want))
	return true
}

// Touch has a cache line come, whatever is in it.
func Touch(p unsafe.Pointer) { (*atomic.Uint64)(p).Load() }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
