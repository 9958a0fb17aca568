package exposition

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// Kind is the kind of the series of a family of the type.
func (t Type) Kind() metric.Kind {
	switch t {
	case CounterType:
		return metric.Counter
	case SummaryType, HistogramType, GaugeHistogramType:
		return metric.Timer
	}
	return metric.Gauge
}

// SampleBuilder makes samples for the table from metrics, and reuses its memory. A client keeps totals
// of counters, histograms and summaries: their samples are running totals.
type SampleBuilder struct {
	name      []byte
	histogram metric.Histogram
	buckets   buckets.Builder
}

// End drops borrowed memory.
func (b *SampleBuilder) End() { b.histogram.Bounds, b.histogram.Counts = nil, nil }

// Build sets the name, the kind and the value of a sample to those of the i-th metric of a family, and
// leaves its labels. It returns the reason if no series can have the value.
func (b *SampleBuilder) Build(s *metric.Sample, f *Family, i int) metric.Reason {
	m := &f.Metrics[i]
	b.name = append(b.name[:0], f.Name...)
	s.Name, s.Kind, s.Histogram = b.name, f.Type.Kind(), nil
	s.Whole, s.Fraction = 0, 0
	switch {
	case f.Type == GaugeHistogramType: // it can decrease, so it says nothing about a window
		return metric.Unsupported
	case m.Histogram != nil:
		s.Op, s.Histogram = metric.Accumulate, b.toHistogram(m.Histogram)
	case m.Summary != nil:
		s.Op, s.Histogram = metric.Accumulate, b.summary(m.Summary)
	case !metric.IsFinite(m.Value):
		return metric.BadValue
	default:
		s.Op = metric.Assign
		if s.Kind == metric.Counter {
			s.Op = metric.Accumulate
		}
		s.SetFloat(m.Value)
	}
	return metric.Applied
}

func (b *SampleBuilder) summary(s *Summary) *metric.Histogram {
	h := &b.histogram
	*h = metric.Histogram{Count: s.Count, Sum: s.Sum, Min: math.NaN(), Max: math.NaN(), Quantiles: h.Quantiles[:0]}
	for _, q := range s.Quantiles {
		h.Quantiles = append(h.Quantiles, metric.Quantile{Q: q.Quantile, Value: q.Value})
	}
	return h
}

// toHistogram prefers native buckets, which are finer.
func (b *SampleBuilder) toHistogram(in *Histogram) *metric.Histogram {
	if in.Native == nil || !b.buckets.SetNative(in.Native) {
		b.buckets.SetClassic(in.Buckets, in.Count)
	}
	b.buckets.Fill(&b.histogram, in.Count, in.Sum)
	return &b.histogram
}
