package aggregate

import (
	"math"
	"sync"
)

// distribution sums up bins: of one timer's ticks, or of many timers. It is scratch space, reused.
type distribution struct {
	weights  []uint64 // by bin
	low, top int      // bins used: low <= bin < top
	total    uint64   // Σ weights
	sum      float64
	min, max float64
	// pushed is how many observations came in histograms, binned the weight in total that stands for them.
	pushed float64
	binned uint64
}

var distributions = sync.Pool{New: func() any {
	d := &distribution{weights: make([]uint64, binCount)}
	d.reset()
	return d
}}

func (d *distribution) reset() {
	if d.low < d.top {
		clear(d.weights[d.low:d.top])
	}
	d.low, d.top, d.total, d.sum = binCount, 0, 0, 0
	d.pushed, d.binned = 0, 0
	d.min, d.max = math.Inf(1), math.Inf(-1)
}

func (d *distribution) add(bin int, weight uint64) {
	d.weights[bin] = saturate(d.weights[bin], weight)
	d.total = saturate(d.total, weight)
	d.low, d.top = min(d.low, bin), max(d.top, bin+1)
}

// saturate adds without wrapping.
func saturate(a, b uint64) uint64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxUint64
}

// merge adds one slot.
func (d *distribution) merge(s *timerSlot) {
	eachBin(s.bins, d.add)
	d.extend(s.sum, s.min, s.max)
}

func (d *distribution) extend(sum, low, high float64) {
	d.sum = finite(d.sum + sum)
	d.min, d.max = min(d.min, low), max(d.max, high)
}

// appendBins appends all bins in the form of appendBin.
func (d *distribution) appendBins(dst []byte) []byte {
	before := 0
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			dst = appendBin(dst, bin-before, w)
			before = bin
		}
	}
	return dst
}

// count is how many observations there are. Weights that came from fractional rates carry the grid's error, some
// 1e-6 each; five decimals are what stands.
func (d *distribution) count() float64 {
	n := float64(d.total-d.binned) / weightUnits
	return math.Round(n*1e5)/1e5 + d.pushed
}

// size is how many observations there are, as they weigh.
func (d *distribution) size() float64 { return float64(d.total-d.binned)/weightUnits + d.pushed }

func (d *distribution) mean() float64 { return d.sum / d.size() }

// quantile is within relativeError of the smallest observed value that has at least the share q at or below it.
func (d *distribution) quantile(q float64) float64 {
	rank := max(uint64(math.Ceil(q*float64(d.total))), 1)
	below := uint64(0)
	for bin := d.low; bin < d.top; bin++ {
		if below += d.weights[bin]; below >= rank {
			return max(d.min, min(binValue(bin), d.max))
		}
	}
	return d.max
}
