package group

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// ObjectLabel is the grouping label that names the described object, NamespaceLabel the one of the
// object's namespace.
const (
	ObjectLabel    = "sluice_object"
	NamespaceLabel = "namespace"
)

// kindOf is the kind of a family's series in the table.
func kindOf(t exposition.Type) metric.Kind {
	switch t {
	case exposition.CounterType:
		return metric.Counter
	case exposition.SummaryType, exposition.HistogramType, exposition.GaugeHistogramType:
		return metric.Timer
	}
	return metric.Gauge
}

// sampleBuilder makes samples from metrics, and reuses its memory.
type sampleBuilder struct {
	name      []byte
	fields    []metric.Label
	histogram metric.Histogram
	buckets   buckets.Builder
}

// end drops borrowed memory.
func (d *sampleBuilder) end() {
	clear(d.fields)
	d.fields, d.histogram.Bounds, d.histogram.Counts = d.fields[:0], nil, nil
}

// build makes the sample of a metric. It returns the reason if no series can have the value.
func (d *sampleBuilder) build(s *metric.Sample, about *metric.Object, f *family, i int) metric.Reason {
	m := &f.Metrics[i]
	d.name = append(d.name[:0], f.Name...)
	s.Name, s.Kind, s.Histogram = d.name, kindOf(f.Type), nil
	s.Whole, s.Fraction = 0, 0
	s.Fields = d.seriesLabels(about, m.Labels)
	switch {
	case f.Type == exposition.GaugeHistogramType: // it can decrease, so it says nothing about a window
		return metric.Unsupported
	case m.Histogram != nil:
		s.Op, s.Histogram = metric.Accumulate, d.toHistogram(m.Histogram)
	case m.Summary != nil:
		s.Op, s.Histogram = metric.Accumulate, d.summary(m.Summary)
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

// seriesLabels are the labels of a metric's series: all but those that name the object.
func (d *sampleBuilder) seriesLabels(about *metric.Object, labels []metric.Label) []metric.Label {
	if !has(labels, ObjectLabel) {
		return labels
	}
	d.fields = d.fields[:0]
	for _, l := range labels {
		if l.Key == ObjectLabel || l.Key == NamespaceLabel && !about.External() {
			continue
		}
		d.fields = append(d.fields, l)
	}
	return d.fields
}

// labelSet is seriesLabels as a set.
func (d *sampleBuilder) labelSet(about *metric.Object, f *family, i int) metric.Labels {
	packed, _ := metric.UnpackLabels(string(metric.AppendLabels(nil, d.seriesLabels(about, f.Metrics[i].Labels))))
	return packed
}

func (d *sampleBuilder) summary(s *exposition.Summary) *metric.Histogram {
	h := &d.histogram
	*h = metric.Histogram{Count: s.Count, Sum: s.Sum, Min: math.NaN(), Max: math.NaN(), Quantiles: h.Quantiles[:0]}
	for _, q := range s.Quantiles {
		h.Quantiles = append(h.Quantiles, metric.Quantile{Q: q.Quantile, Value: q.Value})
	}
	return h
}

// toHistogram prefers native buckets, which are finer.
func (d *sampleBuilder) toHistogram(in *exposition.Histogram) *metric.Histogram {
	if in.Native == nil || !d.buckets.SetNative(in.Native) {
		d.buckets.SetClassic(in.Buckets, in.Count)
	}
	d.buckets.Fill(&d.histogram, in.Count, in.Sum)
	return &d.histogram
}
