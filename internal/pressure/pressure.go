package pressure

import (
	"math"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Memory is high from sevenths eighths of the limit on. What is left is for what was allowed a moment ago and is not allocated
// yet: a collection of garbage, of which there are many near the limit, says what is in use.
const (
	sevenths, eighths = 7, 8
	lookEvery         = 100 * time.Millisecond
)

var (
	high   atomic.Bool
	looked atomic.Int64 // when, in Unix nanoseconds
)

// High reports whether memory is short. Without a limit it never is. It looks ten times a second at most.
func High() bool {
	now, last := time.Now().UnixNano(), looked.Load()
	// A negative difference means that the wall clock was set back.
	early := now-last >= 0 && now-last < int64(lookEvery)
	if !early && looked.CompareAndSwap(last, now) {
		high.Store(look())
	}
	return high.Load()
}

func look() bool {
	used, limit := inUse()
	return limit < math.MaxInt64 && used >= limit/eighths*sevenths
}

// inUse is the memory that the limit counts, without garbage and free memory, and the limit.
func inUse() (used, limit uint64) {
	of := []metrics.Sample{
		{Name: "/gc/gomemlimit:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(of)
	value := func(i int) uint64 { return of[i].Value.Uint64() }
	return value(1) + value(2) - value(3) - value(4) - value(5) - value(6), value(0)
}
