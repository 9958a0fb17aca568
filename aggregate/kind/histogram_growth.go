package kind

import (
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// cumulative is a pushed histogram, or the growth between two of them. It is immutable.
type cumulative struct {
	part
	count, sum float64
}

var noGain = gain{min: math.Inf(1), max: math.Inf(-1)}

func (g gain) plus(o gain) gain {
	return gain{finite(g.count + o.count), finite(g.sum + o.sum), min(g.min, o.min), max(g.max, o.max)}
}

// since returns the growth since another histogram of the same client; nil: there is none. fell: a
// count decreased, or only one of the two has buckets. Then all of c is growth, if it is newer.
func (c *cumulative) since(was *cumulative) (grown *cumulative, fell bool) {
	if was == nil {
		return c, false
	}
	counts, ok := c.part.since(was.part)
	if !ok || c.count < was.count {
		return c, true
	}
	return &cumulative{part{c.bounds, counts}, c.count - was.count, c.sum - was.sum}, false
}

// since returns the growth of each bucket, or false after a reset. Different bounds alone are no
// reset. Native histograms add buckets as values need them and merge buckets to limit their number;
// clients may push a classic histogram without some of its buckets. Then only the common bounds are
// compared, and the growth between them is divided approximately.
func (p part) since(was part) (grown []float64, ok bool) {
	switch {
	case len(p.bounds) == 0 || len(was.bounds) == 0:
		return nil, len(p.bounds) == len(was.bounds)
	case slices.Equal(p.bounds, was.bounds):
		return minus(p.counts, was.counts)
	case contains(was.bounds, p.bounds):
		return minus(p.counts, was.regrouped(p.bounds))
	}
	return p.sinceCoarser(was.coarsened(p.bounds))
}

// coarsened merges buckets of p so that only bounds that are also in others remain.
func (p part) coarsened(others []float64) part {
	shared := make([]float64, 0, len(p.bounds))
	for _, v := range p.bounds {
		if _, has := slices.BinarySearch(others, v); has {
			shared = append(shared, v)
		}
	}
	return part{shared, p.regrouped(shared)}
}

// sinceCoarser returns the growth since a part whose bounds are a subset of p's. It divides the
// growth of each former bucket among its current buckets in proportion to their counts.
func (p part) sinceCoarser(was part) (grown []float64, ok bool) {
	now := p.regrouped(was.bounds)
	fresh, ok := minus(now, was.counts)
	if !ok {
		return nil, false
	}
	grown = make([]float64, len(p.counts))
	for i, n := range p.counts {
		if in := p.group(i, was.bounds); n > 0 {
			grown[i] = n * (fresh[in] / now[in])
		}
	}
	return grown, true
}

func minus(now, was []float64) (grown []float64, ok bool) {
	grown = make([]float64, len(now))
	for i := range now {
		if grown[i] = now[i] - was[i]; grown[i] < 0 {
			return nil, false
		}
	}
	return grown, true
}

// contains reports whether bounds contains all of some. Both are sorted.
func contains(bounds, some []float64) bool {
	for _, v := range some {
		if _, has := slices.BinarySearch(bounds, v); !has {
			return false
		}
	}
	return true
}

// regrouped returns the counts by other bounds. They are exact if p has all of those bounds.
func (p part) regrouped(bounds []float64) []float64 {
	counts := make([]float64, len(bounds)+1)
	for i, n := range p.counts {
		counts[p.group(i, bounds)] += n
	}
	return counts
}

// group returns the bucket, by other bounds, that contains the upper bound of a bucket of p.
func (p part) group(bucket int, bounds []float64) int {
	if bucket == len(p.bounds) {
		return len(bounds)
	}
	in, _ := slices.BinarySearch(bounds, p.bounds[bucket])
	return in
}

// gain returns the sums and extremes of c. The extremes are the bounds of the first and last bucket
// in use, narrowed by the extremes of h. The extremes of a running total cover the client's whole
// life, so they alone would be too wide.
func (c *cumulative) gain(h *metric.Histogram) gain {
	g := gain{count: c.count, sum: c.sum, min: math.Inf(1), max: math.Inf(-1)}
	if math.IsInf(g.sum, 0) {
		g.sum = math.NaN()
	}
	first, last := slices.IndexFunc(c.counts, isSome), lastIndexFunc(c.counts, isSome)
	if first < 0 {
		if known(h.Min) {
			g.min = h.Min
		}
		if known(h.Max) {
			g.max = h.Max
		}
		return g
	}
	g.min, g.max = c.bounds[max(first-1, 0)], c.bounds[min(last, len(c.bounds)-1)]
	switch {
	case first == 0 && known(h.Min):
		g.min = h.Min
	case first == 0:
		g.min = min(g.min, 0)
	case known(h.Min):
		g.min = max(g.min, h.Min)
	}
	if known(h.Max) && (last == len(c.bounds) || h.Max < g.max) {
		g.max = h.Max
	}
	return g
}

func isSome(n float64) bool { return n > 0 }

func lastIndexFunc(counts []float64, f func(float64) bool) int {
	for i := len(counts) - 1; i >= 0; i-- {
		if f(counts[i]) {
			return i
		}
	}
	return -1
}

// known reports whether a client pushed an extreme or quantile: unknown ones are not finite.
func known(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }
