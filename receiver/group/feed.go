package group

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// ObjectLabel is the grouping label that says which object a group's series are about, NamespaceLabel that of its
// namespace.
const (
	ObjectLabel    = "sluice_object"
	NamespaceLabel = "namespace"
)

// kindOf is what a family's metrics become in the table.
func kindOf(t exposition.Type) metric.Kind {
	switch t {
	case exposition.CounterType:
		return metric.Counter
	case exposition.SummaryType, exposition.HistogramType, exposition.GaugeHistogramType:
		return metric.Timer
	}
	return metric.Gauge
}

// feed makes samples of metrics. Its memory is used again for the next one.
type feed struct {
	name      []byte
	fields    []metric.Label
	histogram metric.Histogram
	buckets   buckets.Builder
}

// end lets go of what was borrowed.
func (d *feed) end() {
	clear(d.fields)
	d.fields, d.histogram.Bounds, d.histogram.Counts = d.fields[:0], nil, nil
}

// fill makes the sample of a metric. Instead of metric.Applied it answers why no series can have it.
func (d *feed) fill(s *metric.Sample, about *metric.Object, f *family, i int) metric.Reason {
	m := &f.Metrics[i]
	d.name = append(d.name[:0], f.Name...)
	s.Name, s.Kind, s.Histogram = d.name, kindOf(f.Type), nil
	s.Whole, s.Fraction = 0, 0
	s.Fields = d.series(about, m.Labels)
	switch {
	case f.Type == exposition.GaugeHistogramType: // it falls, so it says nothing of what happened in a window
		return metric.Unsupported
	case m.Histogram != nil:
		s.Op, s.Histogram = metric.Accumulate, d.ofHistogram(m.Histogram)
	case m.Summary != nil:
		s.Op, s.Histogram = metric.Accumulate, d.ofSummary(m.Summary)
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

// series is the labels that a metric has in the table: all, but those that said which object it is about.
func (d *feed) series(about *metric.Object, labels []metric.Label) []metric.Label {
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

// labels is the label set that a metric has in the table.
func (d *feed) labels(about *metric.Object, f *family, i int) metric.Labels {
	packed, _ := metric.UnpackLabels(string(metric.AppendLabels(nil, d.series(about, f.Metrics[i].Labels))))
	return packed
}

func (d *feed) ofSummary(s *exposition.Summary) *metric.Histogram {
	h := &d.histogram
	*h = metric.Histogram{Count: s.Count, Sum: s.Sum, Min: math.NaN(), Max: math.NaN(), Quantiles: h.Quantiles[:0]}
	for _, q := range s.Quantiles {
		h.Quantiles = append(h.Quantiles, metric.Quantile{Q: q.Quantile, Value: q.Value})
	}
	return h
}

// ofHistogram takes the native buckets where there are any: they are the finer ones.
func (d *feed) ofHistogram(in *exposition.Histogram) *metric.Histogram {
	if in.Native == nil || !d.buckets.SetNative(in.Native) {
		d.buckets.SetClassic(in.Buckets, in.Count)
	}
	d.buckets.Fill(&d.histogram, in.Count, in.Sum)
	return &d.histogram
}
