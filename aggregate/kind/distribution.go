package kind

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// distribution sums up bins: of one timer's ticks, or of many timers. It is scratch space, reused.
type distribution struct {
	weights  []uint64 // by bin
	used     []uint64 // a bit for each bin that has a weight: most between low and top have none
	low, top int      // bins used: low <= bin < top
	Total    uint64   // Σ weights
	Sum      float64
	min, max float64
	// pushed is how many observations came in histograms, binned the weight in total that stands
	// for them.
	pushed float64
	binned uint64

	scratch []byte
}

var distributions = sync.Pool{New: func() any {
	d := &distribution{weights: make([]uint64, BinCount), used: make([]uint64, BinCount/64+1)}
	d.reset()
	return d
}}

func (d *distribution) reset() {
	if d.low < d.top {
		clear(d.weights[d.low:d.top])
		clear(d.used[d.low/64 : (d.top-1)/64+1])
	}
	d.low, d.top, d.Total, d.Sum = BinCount, 0, 0, 0
	d.pushed, d.binned = 0, 0
	d.min, d.max = math.Inf(1), math.Inf(-1)
}

func (d *distribution) add(bin int, weight uint64) {
	d.weights[bin] = saturate(d.weights[bin], weight)
	d.used[bin/64] |= 1 << (bin % 64)
	d.Total = saturate(d.Total, weight)
	d.low, d.top = min(d.low, bin), max(d.top, bin+1)
}

// saturate adds without wrapping.
func saturate(a, b uint64) uint64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxUint64
}

func (d *distribution) extend(sum, low, high float64) {
	d.Sum = finite(d.Sum + sum)
	d.min, d.max = min(d.min, low), max(d.max, high)
}

// A bin takes a byte where it can: three bits of distance from the one before, 0 where that
// follows, and five of weight: so many observations, or what follows counts them, or the units that
// they weigh.
const (
	gapShift    = 5
	mostGap     = 1<<(8-gapShift) - 1
	weightBits  = 1<<gapShift - 1
	weightUnit  = 0 // units follow
	weightWhole = weightBits
)

// appendBins appends all bins.
func (d *distribution) appendBins(dst []byte) []byte {
	before := 0
	for word := d.low / 64; word*64 < d.top; word++ {
		for set := d.used[word]; set != 0; set &= set - 1 {
			bin := word*64 + bits.TrailingZeros64(set)
			dst = appendBin(dst, bin-before, d.weights[bin])
			before = bin
		}
	}
	return dst
}

func appendBin(dst []byte, gap int, weight uint64) []byte {
	exact, whole := weight%WeightUnits == 0, weight/WeightUnits
	if exact && whole-1 < weightWhole-1 && uint(gap)-1 < mostGap {
		return append(dst, byte(gap<<gapShift)|byte(whole))
	}
	head, more := byte(weightUnit), weight
	if exact {
		if head, more = weightWhole, weight/WeightUnits; more < weightWhole {
			head = byte(more)
		}
	}
	if gap > 0 && gap <= mostGap {
		dst = append(dst, head|byte(gap<<gapShift))
	} else {
		dst = binary.AppendUvarint(append(dst, head), uint64(gap))
	}
	if head == weightUnit || head == weightWhole {
		dst = binary.AppendUvarint(dst, more)
	}
	return dst
}

// addBins adds what appendBins appended. It reports false for bytes that are not such a list.
func (d *distribution) addBins(list []byte) bool {
	bin := 0
	for at := 0; at < len(list); {
		head := list[at]
		at++
		gap, weight := uint64(head>>gapShift), uint64(head&weightBits)*WeightUnits
		if gap == 0 || head&weightBits == weightUnit || head&weightBits == weightWhole {
			n := 0
			if gap, weight, n = cutBin(head, list[at:]); n < 0 {
				return false
			}
			at += n
		}
		if gap >= uint64(BinCount-bin) {
			return false
		}
		bin += int(gap)
		d.add(bin, weight)
	}
	return true
}

// cutBin reads what follows a bin's head, and says how long that is; less than 0: it is none.
func cutBin(head byte, list []byte) (gap, weight uint64, n int) {
	gap, weight = uint64(head>>gapShift), uint64(head&weightBits)*WeightUnits
	if gap == 0 {
		if gap, n = binary.Uvarint(list); n <= 0 {
			return 0, 0, -1
		}
	}
	if kind := head & weightBits; kind == weightUnit || kind == weightWhole {
		v, m := binary.Uvarint(list[n:])
		if m <= 0 {
			return 0, 0, -1
		}
		if n, weight = n+m, v; kind == weightWhole {
			weight = v * WeightUnits
		}
	}
	return gap, weight, n
}

// Size is how many observations there are, as they weigh.
func (d *distribution) Size() float64 { return float64(d.Total-d.binned)/WeightUnits + d.pushed }

func (d *distribution) mean() float64 { return d.Sum / d.Size() }

// quantile is within relativeError of the smallest observed value that has at least the share q at
// or below it.
func (d *distribution) quantile(q float64) float64 {
	rank := max(uint64(math.Ceil(q*float64(d.Total))), 1)
	below := uint64(0)
	for bin := d.low; bin < d.top; bin++ {
		if below += d.weights[bin]; below >= rank {
			return max(d.min, min(BinValue(bin), d.max))
		}
	}
	return d.max
}

// stat evaluates mean, min, max and percentiles; stats that add never come here. known is false if
// the distribution lacks the value, such as the mean of no observations. supported is false for any
// other stat.
func (d *distribution) stat(s metric.Stat) (v float64, known, supported bool) {
	switch s {
	case metric.Mean:
		return d.mean(), d.Size() > 0 && !math.IsNaN(d.Sum), true
	case metric.Min:
		return d.min, !math.IsInf(d.min, 0), true
	case metric.Max:
		return d.max, !math.IsInf(d.max, 0), true
	}
	q := s.Quantile()
	if math.IsNaN(q) {
		return 0, false, false
	}
	if d.Total == 0 {
		return 0, false, true
	}
	return d.quantile(q), true, true
}
