package kind

import (
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// cumulative is a histogram as a client pushed it, or the part of one that is new. It is never
// changed.
type cumulative struct {
	part
	count, sum float64
}

var noGain = gain{min: math.Inf(1), max: math.Inf(-1)}

func (g gain) plus(o gain) gain {
	return gain{finite(g.count + o.count), finite(g.sum + o.sum), min(g.min, o.min), max(g.max, o.max)}
}

// since is what came after an earlier histogram of the same client. Where anything has become less,
// or there are buckets where there were none, the client began anew: all of it came after.
func (c *cumulative) since(was *cumulative) *cumulative {
	counts, ok := c.part.since(was.part)
	if !ok || c.count < was.count {
		return c
	}
	return &cumulative{part{c.bounds, counts}, c.count - was.count, c.sum - was.sum}
}

// since is by how much each bucket has grown; false: not at all like that. Bounds that were added,
// left out or exchanged are no fresh start: native histograms get buckets as values need them, and
// halve their number when there are too many, and of a classic one not all buckets come with each
// push. What both have is compared; the coarser they are, the less is known of where in between it
// grew.
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

// coarsened is the part by those of its bounds that others have too: all of them, some, or none.
func (p part) coarsened(others []float64) part {
	shared := make([]float64, 0, len(p.bounds))
	for _, v := range p.bounds {
		if _, has := slices.BinarySearch(others, v); has {
			shared = append(shared, v)
		}
	}
	return part{shared, p.regrouped(shared)}
}

// sinceCoarser divides what a former bucket had among those that it was split into, as they have
// now.
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

// contains reports whether all of some is in bounds. Both are sorted.
func contains(bounds, some []float64) bool {
	for _, v := range some {
		if _, has := slices.BinarySearch(bounds, v); !has {
			return false
		}
	}
	return true
}

// regrouped is the counts by other bounds: exact where those are among the own ones.
func (p part) regrouped(bounds []float64) []float64 {
	counts := make([]float64, len(bounds)+1)
	for i, n := range p.counts {
		counts[p.group(i, bounds)] += n
	}
	return counts
}

// group is the bucket, by other bounds, that the end of a bucket lies in.
func (p part) group(bucket int, bounds []float64) int {
	if bucket == len(p.bounds) {
		return len(bounds)
	}
	in, _ := slices.BinarySearch(bounds, p.bounds[bucket])
	return in
}

// gain is what all of c comes to. The extremes of h narrow what the bounds of the first and last
// bucket in use say: those of a running total are of the client's whole life, and perhaps long
// past.
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

// known reports whether an extreme was told.
func known(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }
