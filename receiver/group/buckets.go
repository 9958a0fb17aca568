package group

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// buckets are a histogram's as the table takes them: finite bounds, and each bucket's own count, with one more for what is
// above the last bound.
type buckets struct{ bounds, counts []float64 }

func (b *buckets) reset() { b.bounds, b.counts = b.bounds[:0], b.counts[:0] }

// classic takes buckets of which each counts those below it too.
func (b *buckets) classic(h *exposition.Histogram) {
	below := 0.0
	for _, one := range h.Buckets {
		own := one.Count - below
		switch {
		case math.IsInf(one.UpperBound, 1):
			b.counts = append(b.counts, own)
			return
		case math.IsInf(one.UpperBound, -1): // nothing is less: it goes to the next
			continue
		}
		b.bounds, b.counts = append(b.bounds, one.UpperBound), append(b.counts, own)
		below = one.Count
	}
	b.counts = append(b.counts, max(0, h.Count-below))
}

// native takes buckets of exponential width, from the lowest value to the highest. False: they are more than the table takes,
// at the least resolution that there is.
func (b *buckets) native(n *exposition.Native) bool {
	for schema := n.Schema; schema >= -4; schema-- {
		b.reset()
		if b.atSchema(n, schema) {
			return true
		}
	}
	return false
}

// atSchema merges the buckets of a native histogram to those of a schema that is not finer: each halves their number.
//
// Source: https://prometheus.io/docs/specs/native_histograms/
func (b *buckets) atSchema(n *exposition.Native, schema int32) bool {
	shift := n.Schema - schema
	negative := indices(n.NegativeSpans, shift)
	for i := len(negative) - 1; i >= 0; i-- {
		low, high := bound(negative[i]-1, schema), bound(negative[i], schema)
		if n.NegativeCounts[i] > 0 && !b.add(-high, -max(low, n.ZeroThreshold), n.NegativeCounts[i]) {
			return false
		}
	}
	if n.ZeroCount > 0 && !b.add(-n.ZeroThreshold, n.ZeroThreshold, n.ZeroCount) {
		return false
	}
	for i, index := range indices(n.PositiveSpans, shift) {
		low, high := bound(index-1, schema), bound(index, schema)
		if n.PositiveCounts[i] > 0 && !b.add(max(low, n.ZeroThreshold), high, n.PositiveCounts[i]) {
			return false
		}
	}
	if len(b.bounds) > 0 {
		b.counts = append(b.counts, 0)
	}
	return true
}

// add adds what lies in (low, high]. Between it and what was added last may be a gap, which is a bucket of nothing.
func (b *buckets) add(low, high, count float64) bool {
	low, high = clamp(low), clamp(high)
	last := len(b.bounds) - 1
	switch {
	case last >= 0 && high <= b.bounds[last]: // merged by the schema, or the zero bucket without width
		b.counts[last] += count
		return true
	case last < 0 || low > b.bounds[last]:
		b.bounds, b.counts = append(b.bounds, low), append(b.counts, 0)
	}
	if high > b.bounds[len(b.bounds)-1] {
		b.bounds, b.counts = append(b.bounds, high), append(b.counts, 0)
	}
	b.counts[len(b.counts)-1] += count
	return len(b.bounds) <= metric.MaxBounds
}

func clamp(v float64) float64 { return max(-math.MaxFloat64, min(v, math.MaxFloat64)) }

// indices are those of the buckets, by a schema that is shift coarser.
func indices(spans []exposition.Span, shift int32) []int32 {
	var all []int32
	next := int32(0)
	for _, s := range spans {
		next += s.Offset
		for range s.Length {
			// Bucket i has (base^(i-1), base^i]: two of a finer schema, 2j-1 and 2j, are j.
			all = append(all, (next-1)>>shift+1)
			next++
		}
	}
	return all
}

// bound is the upper bound of a bucket: base^index, where base is 2^(2^-schema).
func bound(index, schema int32) float64 {
	if schema < 0 {
		exponent := int64(index) << -schema
		return math.Ldexp(1, int(max(-1100, min(exponent, 1100))))
	}
	whole, part := index>>schema, index&(1<<schema-1)
	return math.Ldexp(math.Exp2(float64(part)/float64(int32(1)<<schema)), int(max(-1100, min(whole, 1100))))
}

// NativeBucket is one bucket of a native histogram.
type NativeBucket struct {
	// Rule is which bounds belong to it, as Prometheus' API numbers them: 0 the high one, 1 the low one, 3 both.
	Rule             int
	Low, High, Count float64
}

// NativeBuckets lists the buckets in which there is something, from the lowest.
func NativeBuckets(n *exposition.Native) (all []NativeBucket) {
	negative := indices(n.NegativeSpans, 0)
	for i := len(negative) - 1; i >= 0; i-- {
		if count := n.NegativeCounts[i]; count > 0 {
			all = append(all, NativeBucket{1, -bound(negative[i], n.Schema), -bound(negative[i]-1, n.Schema), count})
		}
	}
	if n.ZeroCount > 0 {
		all = append(all, NativeBucket{3, -n.ZeroThreshold, n.ZeroThreshold, n.ZeroCount})
	}
	for i, index := range indices(n.PositiveSpans, 0) {
		if count := n.PositiveCounts[i]; count > 0 {
			all = append(all, NativeBucket{0, bound(index-1, n.Schema), bound(index, n.Schema), count})
		}
	}
	return all
}
