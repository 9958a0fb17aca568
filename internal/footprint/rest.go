package footprint

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Interval is the time between two calls of Look.
const Interval = 5 * time.Second

const (
	// restShare is the CPU time, as a share of one core, below which a process is at rest.
	restShare = 0.05

	// returnInterval is the least time between two returns. A collection of a large heap takes a
	// tenth of a second, and loading program pages again a millisecond or two.
	returnInterval = time.Minute

	// heapWorth is what a collection must bring.
	heapWorth = 4 << 20
)

// A Rest returns memory while the process is at rest. One goroutine at a time uses it.
type Rest struct {
	looked   time.Time
	cpu      time.Duration // of the process, when looked
	returned time.Time     // when memory was returned
}

// Run looks once per Interval until ctx ends.
func Run(ctx context.Context) error {
	rest, ticker := NewRest(), time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			rest.Look()
		}
	}
}

// NewRest begins to watch the CPU time of the process.
func NewRest() *Rest { return &Rest{looked: time.Now(), cpu: cpuTime()} }

// Look returns memory if the process was at rest since the last look, once per returnInterval.
func (r *Rest) Look() {
	now, cpu := time.Now(), cpuTime()
	atRest := float64(cpu-r.cpu) < restShare*float64(now.Sub(r.looked))
	r.looked, r.cpu = now, cpu
	if !atRest || now.Sub(r.returned) < returnInterval {
		return
	}
	r.returned = now
	if returnableHeap() >= heapWorth {
		debug.FreeOSMemory()
	}
	_ = dropProgram() // without /proc/self/smaps, or on another system, the pages stay
}

// returnableHeap returns the bytes of the heap's free pages and of objects that the last collection
// did not find alive. Unused room between objects is not among them: it cannot be returned.
func returnableHeap() int64 {
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(heap)
	size := func(i int) int64 { return int64(heap[i].Value.Uint64()) }
	return size(0) + size(1) - size(2)
}
