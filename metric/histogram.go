package metric

import "math"

// Histogram is a distribution that a client has aggregated: in buckets (Prometheus, OTLP) or as
// quantiles (a summary). In a Sample, its slices are borrowed like the sample's bytes.
type Histogram struct {
	// Bounds are the inclusive upper bounds of the buckets: finite and strictly increasing. One
	// more bucket, up to +Inf, follows. Without Bounds, only Count, Sum, Min and Max are known.
	Bounds []float64
	// Counts has each bucket's own observations (not cumulative), one more than Bounds.
	Counts []float64
	// Count and Sum cover all observations. A Sum that is NaN or infinite is unknown.
	Count, Sum float64
	// Min and Max are NaN if unknown.
	Min, Max float64
	// Quantiles are those of a summary, which has no Bounds.
	Quantiles []Quantile
}

// Quantile is one quantile of a summary. Value is NaN if the client had none.
type Quantile struct{ Q, Value float64 }

// Limits of one histogram.
const (
	MaxBounds    = 1024
	MaxQuantiles = 64
)

// Check returns the reason to reject the histogram, or Applied.
func (h *Histogram) Check() Reason {
	buckets := len(h.Counts) == len(h.Bounds)+1 || len(h.Counts) == 0 && len(h.Bounds) == 0
	switch {
	case len(h.Bounds) > MaxBounds || len(h.Quantiles) > MaxQuantiles:
		return TooLong
	case !buckets || len(h.Bounds) > 0 && len(h.Quantiles) > 0:
		return Malformed
	case !Increasing(h.Bounds) || !IsCount(h.Count):
		return BadValue
	}
	for _, n := range h.Counts {
		if !IsCount(n) {
			return BadValue
		}
	}
	return Applied
}

// Increasing reports whether bounds are finite and strictly increasing.
func Increasing(bounds []float64) bool {
	before := math.Inf(-1)
	for _, v := range bounds {
		if !(v > before) || v > math.MaxFloat64 {
			return false
		}
		before = v
	}
	return true
}

// IsCount reports whether v can be a number of observations: finite and at least 0.
func IsCount(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }

// IsFinite reports whether v is neither NaN nor infinite.
func IsFinite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }
