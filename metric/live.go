package metric

import "time"

// Family is one metric of all objects of a resource in a namespace, or one external metric.
type Family struct {
	Resource  string // empty: external
	Namespace string
	Name      string
	Kinds     KindSet // of its series
}

// External reports whether the family's series describe no object.
func (f *Family) External() bool { return f.Resource == "" }

// KindSet is a set of kinds.
type KindSet uint8

// KindSetOf returns the set of one kind.
func KindSetOf(k Kind) KindSet { return 1 << k }

// Has reports whether the set has a kind.
func (s KindSet) Has(k Kind) bool { return s&KindSetOf(k) != 0 }

// LiveSeries is a live series with its values, as an export shows it.
type LiveSeries struct {
	Object Object
	Labels Labels
	// Value is the total of a counter, the last value of a gauge, and the number of members that a
	// set saw in the default window.
	Value Number
	// Start is when the totals of a counter or timer began: at its birth, or when the client's running
	// total did. It stays the same across restarts, and a later one tells of a reset.
	Start time.Time
	// Fell is set once a counter has fallen by an increment below 0.
	Fell bool
	// Summary describes a timer.
	Summary Summary
	// Buckets are those of a timer, if the table keeps their totals.
	Buckets Buckets
}

// Summary is the state of a timer. Count and Sum include all observations since the birth of the
// series, so they never fall while it lives, unless observations are negative; Sum is NaN if a
// client did not say a part of it.
type Summary struct {
	Count, Sum float64
	Quantiles  []Quantile // over the default window
}

// Buckets count the observations of a timer since the birth of the series, or since their totals
// are kept, in buckets of exponential width: (2^((i-1)/2^Schema), 2^(i/2^Schema)] for the index i.
type Buckets struct {
	Schema             int32
	ZeroThreshold      float64  // of the magnitudes that count as zero
	Zero               float64  // observations
	Positive, Negative []Bucket // sorted by index; Negative by magnitude
	Sum                float64  // of these observations; NaN: unknown
}

// Bucket is the number of observations in one bucket. It has a fraction if samples had weights.
type Bucket struct {
	Index int32
	Count float64
}
