package buckets

import "math"

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
