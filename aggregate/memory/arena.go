//go:build !race

package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Arena is contiguous, pointer-free memory outside of Go's heap. It grows in place within a
// reserved address range, so an object's address is a product and a sum. Chunks on the heap would
// need a directory and one more load. The garbage collector neither scans nor counts the memory.
// The kernel may back it with huge pages, which makes random accesses cheaper.
type Arena struct {
	Base     unsafe.Pointer
	reserved int
	usable   atomic.Int64 // bytes from Base on

	mu sync.Mutex // guards growing
}

const (
	hugePage = 2 << 20
	// arenaStep is the least growth of an arena. A larger arena grows by a quarter.
	arenaStep = 64 << 10
)

// NewArena reserves addresses, but no memory. If the system rejects the size, NewArena halves it
// until it succeeds.
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

// Grow makes the first size bytes usable. New bytes are zero. It returns false if there is no
// memory or the reservation is smaller.
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

// Touch loads the cache line at p.
func Touch(p unsafe.Pointer) { (*atomic.Uint64)(p).Load() }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
