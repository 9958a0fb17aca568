package metric

import "math"

// Histogram is a distribution that a client has summed up itself: in buckets (Prometheus, OTLP), or as quantiles
// (a summary). What it is handed in a Sample is borrowed like the sample's bytes.
type Histogram struct {
	// Bounds are the buckets' upper bounds, inclusive, finite and strictly increasing; a last bucket to +Inf follows.
	// None: nothing is known of the distribution but what stands below.
	Bounds []float64
	// Counts has each bucket's own observations, not those of the buckets below it: one more than Bounds.
	Counts []float64
	// Count and Sum are of all observations. A Sum that is NaN or infinite is not known.
	Count, Sum float64
	// Min and Max are the extremes; NaN: not known.
	Min, Max float64
	// Quantiles are a summary's. It has no Bounds.
	Quantiles []Quantile
}

// Quantile is one quantile of a summary. Its Value is NaN where the client had none.
type Quantile struct{ Q, Value float64 }

// What one histogram may hold.
const (
	MaxBounds    = 1024
	MaxQuantiles = 64
)

// Check says why a histogram cannot be taken.
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

// Increasing reports whether bounds are finite, each above the one before it.
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
