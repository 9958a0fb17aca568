package buckets

import "math"

// Bucket is how many observations there were up to a bound, itself included: a classic histogram has some of them, and
// counts that do not decrease from one to the next.
type Bucket struct{ UpperBound, Count float64 }

// Native is a histogram in buckets of exponential width. With base 2^(2^-Schema), bucket i has the observations in
// (base^(i-1), base^i]; the negative ones mirror that. An exponential histogram of OTLP is one: its scale is the schema, and
// its bucket i is i+1 here.
//
// Source: https://prometheus.io/docs/specs/native_histograms/
type Native struct {
	// Schema is -4 to 8 in Prometheus; any is taken.
	Schema int32
	// ZeroThreshold is finite and not negative: up to it, of either sign, are the observations of ZeroCount.
	ZeroThreshold float64
	ZeroCount     float64
	// The counts are each bucket's own: one for each bucket of the spans, whose indices are within 32 bits.
	PositiveSpans, NegativeSpans   []Span
	PositiveCounts, NegativeCounts []float64
}

// Span is a row of buckets: Offset is how many lie between the span before and this one, or the first span's first
// index, which alone may be negative.
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

// Custom is a histogram in buckets whose bounds stand once beside it (schema -53 of native histograms). Bucket i of the spans
// has what is above Bounds[i-1] and up to Bounds[i]; the one after the last bound is open.
//
// Source: https://prometheus.io/docs/specs/native_histograms/#schema
type Custom struct {
	Bounds []float64 // finite and increasing
	Spans  []Span
	Counts []float64
}
