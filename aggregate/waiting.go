package aggregate

import (
	"math/bits"
	"sync/atomic"
)

// waiting are the series that MaxSeries has rejected since the last sweep: a bit for each, by its hash. A client that
// tries again and again is one of them.
type waiting [4]atomic.Uint64

func (w *waiting) add(sum uint64) { w[sum/64%4].Or(1 << (sum % 64)) }

// count is at most the number of series.
func (w *waiting) count() (n int) {
	for i := range w {
		n += bits.OnesCount64(w[i].Load())
	}
	return n
}

// next begins with the next sweep. Those that still wait try again; others may do so only once a series has ended, so
// the sweep goes on to look for one.
func (w *waiting) next(full bool) {
	some := full && w.count() > 0
	for i := range w {
		w[i].Store(0)
	}
	if some {
		w[0].Store(1)
	}
}
