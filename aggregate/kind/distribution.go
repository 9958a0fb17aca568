package kind

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// distribution is a sum of bins over ticks or timers. It is pooled scratch space.
type distribution struct {
	weights  []uint64 // by bin
	used     []uint64 // a bit for each bin with a weight; most bins between low and top have none
	low, top int      // all weights are in low <= bin < top
	Total    uint64   // Σ weights
	Sum      float64
	min, max float64
	// pushed is the number of observations in pushed histograms; binned is their weight, as part of
	// Total.
	pushed float64
	binned uint64
	bare   float64 // observations in pushed histograms without buckets

	scratch []byte // of record
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
	d.pushed, d.binned, d.bare = 0, 0, 0
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

// extend adds to the sum and widens the extremes.
func (d *distribution) extend(sum, low, high float64) {
	d.Sum = finite(d.Sum + sum)
	d.min, d.max = min(d.min, low), max(d.max, high)
}

// An encoded bin is a head byte and up to two varints. The three high bits of the head are the gap:
// the distance from the bin before, or 0 if a varint with the gap follows. The five low bits are
// the weight in observations, or weightUnit or weightWhole if a varint with the weight follows. So
// most bins take one byte.
const (
	gapShift    = 5
	mostGap     = 1<<(8-gapShift) - 1
	weightBits  = 1<<gapShift - 1
	weightUnit  = 0          // the varint is a weight in units
	weightWhole = weightBits // the varint is a number of observations
)

// appendBins appends the encoding of all bins.
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

// addBins decodes and adds the output of appendBins. It returns false if the list is invalid.
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

// cutBin decodes the varints after a bin's head. n is their length, or negative if they are
// invalid.
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

// Size returns the number of observations, including fractions from weights.
func (d *distribution) Size() float64 { return float64(d.Total-d.binned)/WeightUnits + d.pushed }

func (d *distribution) mean() float64 { return d.Sum / d.Size() }

// quantile returns the smallest value v such that at least the share q of the observations is <= v,
// within RelativeError.
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

// stat evaluates mean, min, max and percentiles; stats that add are read from the history
// instead. known is false if the distribution lacks the value, such as the mean of no observations.
// supported is false for any other stat.
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
	if d.Total == 0 || d.bare > 0 { // the bins alone would be a part of the observations
		return 0, false, true
	}
	return d.quantile(q), true, true
}
