package exposition

import (
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// Type is the type of a family.
type Type uint8

// The types. A family without a TYPE line is untyped.
const (
	UntypedType Type = iota
	CounterType
	GaugeType
	SummaryType
	HistogramType
	// GaugeHistogramType is a histogram of the current state: its counts may decrease from push to
	// push.
	GaugeHistogramType
)

var typeNames = [...]string{"untyped", "counter", "gauge", "summary", "histogram", "gaugehistogram"}

// IsHistogram reports whether metrics of the type have a Histogram.
func (t Type) IsHistogram() bool { return t == HistogramType || t == GaugeHistogramType }

// HasSample reports whether the text of a family of the type has samples with the name and the
// suffix.
func (t Type) HasSample(suffix string) bool {
	return t.IsHistogram() || t == SummaryType && suffix != "_bucket"
}

// sampleSuffixes end the names of a histogram's or a summary's samples.
var sampleSuffixes = [...]string{"_bucket", "_sum", "_count"}

// SampleOwner returns the family whose text has a sample of the name: "h" for "h_count" where h is
// a histogram or summary. Find returns a family's type, and whether the family exists.
func SampleOwner(name string, find func(family string) (Type, bool)) (owner string, ok bool) {
	for _, suffix := range sampleSuffixes {
		if base, has := strings.CutSuffix(name, suffix); has {
			if t, exists := find(base); exists && t.HasSample(suffix) {
				return base, true
			}
		}
	}
	return "", false
}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "invalid"
}

// Family is all metrics of one name. It has at least one.
//
// A family from a reader borrows from the reader and the body: see TextReader.Read.
type Family struct {
	// Name is UTF-8, not empty and without NUL. No family has the name of another family's samples:
	// beside the histogram "h" there is no "h_bucket", "h_sum" or "h_count".
	Name string
	// Help is UTF-8 without leading blanks; empty if none was given.
	Help string
	Type Type
	// Metrics are in the order of arrival, with distinct label sets.
	Metrics []Metric
}

// Metric is a label set and its value, summary or histogram.
type Metric struct {
	// Labels are in the order of arrival, without "le" of a histogram and "quantile" of a summary.
	// Keys are distinct UTF-8, not empty, without NUL and without a leading "__"; values are UTF-8
	// and may be empty.
	Labels []metric.Label
	// Value is that of a counter, gauge or untyped metric: any float64, also for a counter.
	Value float64
	// Summary is set for summaries, Histogram for histograms and gauge histograms.
	Summary   *Summary
	Histogram *Histogram
	// Created is when a counter, summary or histogram began, in Unix nanoseconds; 0: unknown. Only
	// Protobuf is written with it: in text it would be a sample of its own. It is never read.
	Created int64
}

// Summary has quantiles that the client calculated.
type Summary struct {
	Count float64 // finite, not negative
	Sum   float64 // 0 if the client sent none
	// Quantiles are sorted and distinct.
	Quantiles []Quantile
}

// Quantile is a quantile, which is not NaN, and its value, which is NaN without observations.
type Quantile struct{ Quantile, Value float64 }

// Histogram counts observations in buckets.
type Histogram struct {
	// Count and Sum are the client's: Count may differ from the last bucket's.
	Count float64 // finite, not negative
	Sum   float64 // 0 where the client did not say
	// Buckets are sorted by bound and distinct. The last bound is +Inf.
	Buckets []Bucket
	// Native is the distribution in buckets of exponential width, or nil. Text can't express it.
	Native *Native
}

// The parts of histograms.
type (
	Bucket = buckets.Bucket
	Native = buckets.Native // of schema -4 to 8
	Span   = buckets.Span
)
