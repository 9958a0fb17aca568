package kind

import "math"

// addPushed adds the growth of histograms. It spreads each bucket's observations evenly between the
// bucket's bounds. So quantiles equal linear interpolation in the bucket, as in Prometheus'
// histogram_quantile, within RelativeError. Count and sum are separate from the bins, and exact.
func (d *distribution) addPushed(g gain, parts []part) {
	d.pushed = finite(d.pushed + g.count)
	before := d.Total
	for _, p := range parts {
		for i, n := range p.counts {
			if n > 0 {
				low, high := p.edges(i, g)
				d.spread(low, high, n)
			}
		}
	}
	d.binned = saturate(d.binned, d.Total-before)
	d.extend(g.sum, g.min, g.max)
}

// edges returns the values between which a bucket's observations are spread. The first bucket
// begins at 0, or at the minimum if that is greater; if its bound is not positive, it consists of
// the bound alone. The last bucket ends at the maximum if that is known, or else at its lower
// bound.
func (p part) edges(bucket int, g gain) (low, high float64) {
	switch {
	case bucket == len(p.bounds):
		low = p.bounds[bucket-1]
		return low, max(low, g.max)
	case bucket > 0:
		return p.bounds[bucket-1], p.bounds[bucket]
	}
	high = p.bounds[0]
	if high <= 0 {
		return high, high
	}
	return max(0, min(g.min, high)), high
}

// spread distributes n observations evenly between two edges. It rounds the cumulative share at
// each bin's end, so the weights add up exactly.
func (d *distribution) spread(low, high, n float64) {
	all := min(math.RoundToEven(n*WeightUnits), maxSpread)
	first, last := BinOf(low), BinOf(high)
	if low >= 0 {
		first = max(first, BinOf(high*leastShare))
	}
	given := 0.0
	for bin := first; bin < last; bin++ {
		share := (binEnd(bin) - low) / (high - low)
		upTo := math.RoundToEven(all * max(0, min(share, 1)))
		if upTo > given {
			d.add(bin, uint64(upTo-given))
			given = upTo
		}
	}
	if all > given {
		d.add(last, uint64(all-given))
	}
}

const (
	// maxSpread bounds the weight of a bucket, far below the largest uint64.
	maxSpread = 1 << 62
	// leastShare bounds the number of bins for a bucket that begins at 0: values below a millionth
	// of its end share a bin.
	leastShare = 1e-6
)

// binEnds are the upper ends of the bins above zero.
var binEnds = func() []float64 {
	ends := make([]float64, binsASide+1)
	for k := range ends {
		ends[k] = math.Exp(float64(k-1+lowest) / perLog)
	}
	return ends
}()

// binEnd is the highest value of a bin.
func binEnd(bin int) float64 {
	switch k := bin - zeroBin; {
	case k > 0:
		return binEnds[k]
	case k == 0:
		return smallest
	default:
		return -binEnds[-k-1]
	}
}
