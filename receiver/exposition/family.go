package exposition

import (
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// Type is what a family's samples are.
type Type uint8

// The types. A family that no TYPE line speaks of is untyped.
const (
	UntypedType Type = iota
	CounterType
	GaugeType
	SummaryType
	HistogramType
	// GaugeHistogramType is a histogram of what is there now: its counts may fall from push to push.
	GaugeHistogramType
)

var typeNames = [...]string{"untyped", "counter", "gauge", "summary", "histogram", "gaugehistogram"}

// IsHistogram reports whether metrics of the type have a Histogram.
func (t Type) IsHistogram() bool { return t == HistogramType || t == GaugeHistogramType }

// HasSample reports whether the text of a family of the type has samples of its name and the suffix.
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
// What a reader returns borrows from the reader and from the body: see TextReader.Read.
type Family struct {
	// Name is UTF-8, not empty and without NUL. No family has the name of another one's samples: where "h" is a
	// histogram there is no "h_bucket", "h_sum" or "h_count".
	Name string
	// Help is UTF-8 that does not begin with a blank; empty: none was given.
	Help string
	Type Type
	// Metrics are in order of arrival; no two have the same set of labels.
	Metrics []Metric
}

// Metric is a label set and what is said of it, by the family's type.
type Metric struct {
	// Labels are in order of arrival, without "le" of a histogram and "quantile" of a summary. Keys are UTF-8, not
	// empty, without NUL, each there once and none begins with "__"; values are UTF-8 and may be empty.
	Labels []metric.Label
	// Value is a counter's, gauge's or untyped metric's: any float64, a counter's too.
	Value float64
	// Summary is set in summaries, Histogram in histograms and gauge histograms.
	Summary   *Summary
	Histogram *Histogram
}

// Summary is quantiles of observations, calculated by the client.
type Summary struct {
	Count float64 // finite, not negative; 0 where the client did not say
	Sum   float64 // 0 where the client did not say
	// Quantiles are in order of the quantile, none twice.
	Quantiles []Quantile
}

// Quantile is a quantile, which is not NaN, and its value, which is where nothing was observed.
type Quantile struct{ Quantile, Value float64 }

// Histogram counts observations in buckets.
type Histogram struct {
	// Count and Sum as the client said: Count may differ from the last bucket's.
	Count float64 // finite, not negative
	Sum   float64 // 0 where the client did not say
	// Buckets are in order of their bounds, none twice. The last one's is +Inf.
	Buckets []Bucket
	// Native is the same in buckets of exponential width; nil: there is none. Text has no way to say it.
	Native *Native
}

// What histograms hold.
type (
	Bucket = buckets.Bucket
	Native = buckets.Native // of schema -4 to 8
	Span   = buckets.Span
)
