package buckets

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// Builder converts buckets to those of the table. Its memory is reused for the next histogram.
type Builder struct {
	// Bounds are finite. Counts has each bucket's own count, and one more for the values above the
	// last bound.
	Bounds, Counts []float64
	indices        []int64
}

func (t *Builder) Reset() { t.Bounds, t.Counts = t.Bounds[:0], t.Counts[:0] }

// Fill makes a histogram of the buckets, which stay borrowed from the Builder. The slice of
// quantiles is kept, but empty.
func (t *Builder) Fill(h *metric.Histogram, count, sum float64) {
	*h = metric.Histogram{Count: count, Sum: sum, Min: math.NaN(), Max: math.NaN(), Bounds: t.Bounds, Counts: t.Counts,
		Quantiles: h.Quantiles[:0]}
	if len(t.Bounds) == 0 { // only a count and a sum
		h.Counts = nil
	}
}

// SetClassic sets cumulative buckets. Count is the number of all observations.
func (t *Builder) SetClassic(all []Bucket, count float64) {
	t.Reset()
	below := 0.0
	for _, bucket := range all {
		own := bucket.Count - below
		switch {
		case math.IsInf(bucket.UpperBound, 1):
			t.Counts = append(t.Counts, own)
			return
		case math.IsInf(bucket.UpperBound, -1): // no value is lower: the next bucket has the count
			continue
		}
		t.Bounds, t.Counts = append(t.Bounds, bucket.UpperBound), append(t.Counts, own)
		below = bucket.Count
	}
	t.Counts = append(t.Counts, max(0, count-below))
}

// SetCustom sets buckets with explicit bounds. It returns false if a bucket lies outside of the
// bounds, or counts and spans disagree.
func (t *Builder) SetCustom(c *Custom) bool {
	t.Reset()
	t.Bounds = append(t.Bounds, c.Bounds...)
	t.Counts = append(t.Counts, make([]float64, len(c.Bounds)+1)...)
	next, taken := int64(0), 0
	for _, s := range c.Spans {
		next += int64(s.Offset)
		if next < 0 || next+int64(s.Length) > int64(len(t.Counts)) || int64(len(c.Counts)-taken) < int64(s.Length) {
			return false
		}
		copy(t.Counts[next:], c.Counts[taken:taken+int(s.Length)])
		next, taken = next+int64(s.Length), taken+int(s.Length)
	}
	return taken == len(c.Counts)
}

// The range of schemas that are kept apart. At the finest, all indices lie within float64; at the
// coarsest, two buckets cover all of it.
const (
	finestSchema   = 20
	coarsestSchema = -11
)

// SetNative sets buckets of exponential width, from the lowest value to the highest. Too many
// buckets are merged to a coarser schema. It returns false if they are too many even then.
func (t *Builder) SetNative(n *Native) bool {
	for schema := max(coarsestSchema, min(n.Schema, finestSchema)); schema >= coarsestSchema; schema-- {
		t.Reset()
		if t.atSchema(n, schema) {
			return true
		}
	}
	return false
}

// atSchema merges the buckets to a schema that is not finer: each step halves their number.
//
// Source: https://prometheus.io/docs/specs/native_histograms/
func (t *Builder) atSchema(n *Native, schema int32) bool {
	shift := max(0, int64(n.Schema)-int64(schema))
	t.indices = appendIndices(t.indices[:0], n.NegativeSpans, shift)
	for i := len(t.indices) - 1; i >= 0; i-- {
		low, high := bound(t.indices[i]-1, schema), bound(t.indices[i], schema)
		if n.NegativeCounts[i] > 0 && !t.add(-high, -max(low, n.ZeroThreshold), n.NegativeCounts[i]) {
			return false
		}
	}
	if n.ZeroCount > 0 && !t.add(-n.ZeroThreshold, n.ZeroThreshold, n.ZeroCount) {
		return false
	}
	t.indices = appendIndices(t.indices[:0], n.PositiveSpans, shift)
	for i, index := range t.indices {
		low, high := bound(index-1, schema), bound(index, schema)
		if n.PositiveCounts[i] > 0 && !t.add(max(low, n.ZeroThreshold), high, n.PositiveCounts[i]) {
			return false
		}
	}
	if len(t.Bounds) > 0 {
		t.Counts = append(t.Counts, 0)
	}
	return true
}

// add adds the bucket (low, high]. A gap after the last bucket becomes an empty bucket.
func (t *Builder) add(low, high, count float64) bool {
	low, high = clamp(low), clamp(high)
	last := len(t.Bounds) - 1
	switch {
	case last >= 0 && high <= t.Bounds[last]: // merged by the schema, or a zero bucket without width
		t.Counts[last] += count
		return true
	case last < 0 || low > t.Bounds[last]:
		t.Bounds, t.Counts = append(t.Bounds, low), append(t.Counts, 0)
	}
	if high > t.Bounds[len(t.Bounds)-1] {
		t.Bounds, t.Counts = append(t.Bounds, high), append(t.Counts, 0)
	}
	t.Counts[len(t.Counts)-1] += count
	return len(t.Bounds) <= metric.MaxBounds
}

func clamp(v float64) float64 { return max(-math.MaxFloat64, min(v, math.MaxFloat64)) }

// appendIndices appends the indices of the buckets at a schema that is shift steps coarser.
func appendIndices(all []int64, spans []Span, shift int64) []int64 {
	next := int64(0)
	for _, s := range spans {
		next += int64(s.Offset)
		for range s.Length {
			// Bucket i is (base^(i-1), base^i], so buckets 2j-1 and 2j of a finer schema are bucket
			// j.
			all = append(all, (next-1)>>shift+1)
			next++
		}
	}
	return all
}

// bound is the upper bound of a bucket: base^index, where base is 2^(2^-schema).
func bound(index int64, schema int32) float64 {
	if schema < 0 {
		return ldexp(1, index<<-schema)
	}
	whole, part := index>>schema, index&(1<<schema-1)
	return ldexp(math.Exp2(float64(part)/float64(int64(1)<<schema)), whole)
}

func ldexp(fraction float64, exponent int64) float64 {
	return math.Ldexp(fraction, int(max(-1100, min(exponent, 1100))))
}

// NativeBucket is one bucket of a native histogram.
type NativeBucket struct {
	// Rule says which bounds are inclusive, as numbered by Prometheus' API: 0 the high one, 1 the
	// low one, 3 both.
	Rule             int
	Low, High, Count float64
}

// NativeBuckets lists the buckets that are not empty, from the lowest. The schema is one of
// Prometheus.
func NativeBuckets(n *Native) (all []NativeBucket) {
	negative := appendIndices(nil, n.NegativeSpans, 0)
	for i := len(negative) - 1; i >= 0; i-- {
		if count := n.NegativeCounts[i]; count > 0 {
			all = append(all, NativeBucket{1, -bound(negative[i], n.Schema), -bound(negative[i]-1, n.Schema), count})
		}
	}
	if n.ZeroCount > 0 {
		all = append(all, NativeBucket{3, -n.ZeroThreshold, n.ZeroThreshold, n.ZeroCount})
	}
	for i, index := range appendIndices(nil, n.PositiveSpans, 0) {
		if count := n.PositiveCounts[i]; count > 0 {
			all = append(all, NativeBucket{0, bound(index-1, n.Schema), bound(index, n.Schema), count})
		}
	}
	return all
}

// Bucket is the cumulative count of observations up to and including a bound. In a classic
// histogram, the counts do not decrease from bucket to bucket.
type Bucket struct{ UpperBound, Count float64 }

// Native is a histogram in buckets of exponential width. With base 2^(2^-Schema), bucket i counts
// the observations in (base^(i-1), base^i]; negative buckets mirror that. An exponential histogram
// of OTLP is one: its scale is the schema, and its bucket i is i+1 here.
//
// Source: https://prometheus.io/docs/specs/native_histograms/
type Native struct {
	// Schema is -4 to 8 in Prometheus; any value is accepted.
	Schema int32
	// ZeroThreshold is finite and not negative. ZeroCount counts the observations up to it, of
	// either sign.
	ZeroThreshold float64
	ZeroCount     float64
	// The counts are each bucket's own: one for each bucket of the spans. Bucket indices fit 32
	// bits.
	PositiveSpans, NegativeSpans   []Span
	PositiveCounts, NegativeCounts []float64
}

// Span is a row of adjacent buckets. Offset is the gap to the span before or, for the first span,
// the first index; only that may be negative.
type Span struct {
	Offset int32
	Length uint32
}

// SpansHold reports whether spans announce exactly n buckets, whose indices are within 32 bits.
func SpansHold(spans []Span, n int) bool {
	end, announced := int64(0), int64(0)
	for i, s := range spans {
		end += int64(s.Offset) + int64(s.Length)
		announced += int64(s.Length)
		if i > 0 && s.Offset < 0 || end < math.MinInt32 || end > math.MaxInt32 {
			return false
		}
	}
	return announced == int64(n)
}

// Custom is a histogram in buckets with explicit bounds (schema -53 of native histograms). Bucket i
// of the spans counts the observations above Bounds[i-1] and up to Bounds[i]; the one after the
// last bound is open.
//
// Source: https://prometheus.io/docs/specs/native_histograms/#schema
type Custom struct {
	Bounds []float64 // finite and strictly increasing
	Spans  []Span
	Counts []float64
}
