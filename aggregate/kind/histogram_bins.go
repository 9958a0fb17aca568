package kind

import "math"

// addPushed adds what histograms tell: each bucket's observations are laid over the bins as if they
// lay evenly between its bounds. So a quantile read off the bins is what linear interpolation in
// the bucket gives, as Prometheus' histogram_quantile does it, within relativeError. Count and sum
// are kept apart from the bins, and exact.
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

// edges is what a bucket's observations lie between. The first one begins at 0, or at the minimum
// if that is above, and one below 0 has only its bound; the last one ends at the maximum where that
// is known, else at the bound below it.
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

// spread lays n observations evenly between two edges. What is rounded is the share below each
// bin's end, so nothing is lost.
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
	// maxSpread is far from the end of a weight.
	maxSpread = 1 << 62
	// leastShare bounds the bins of a bucket that begins at 0: those below a millionth of its end
	// are one.
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
