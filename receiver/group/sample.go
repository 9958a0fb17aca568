package group

import (
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// ObjectLabel is the grouping label that names the described object, NamespaceLabel the one of the
// object's namespace.
const (
	ObjectLabel    = "sluice_object"
	NamespaceLabel = "namespace"
)

// sampleBuilder makes samples from metrics of a group, and reuses its memory.
type sampleBuilder struct {
	exposition.SampleBuilder
	fields []metric.Label
}

// end drops borrowed memory.
func (d *sampleBuilder) end() {
	clear(d.fields)
	d.fields = d.fields[:0]
	d.End()
}

// build makes the sample of a metric. It returns the reason if no series can have the value.
func (d *sampleBuilder) build(s *metric.Sample, about *metric.Object, f *family, i int) metric.Reason {
	s.Fields = d.seriesLabels(about, f.Metrics[i].Labels)
	return d.Build(s, &f.Family, i)
}

// seriesLabels are the labels of a metric's series: all but those that name the object.
func (d *sampleBuilder) seriesLabels(about *metric.Object, labels []metric.Label) []metric.Label {
	if !has(labels, ObjectLabel) {
		return labels
	}
	d.fields = d.fields[:0]
	for _, l := range labels {
		if !isUnserved(l.Key, true, about) {
			d.fields = append(d.fields, l)
		}
	}
	return d.fields
}

// isUnserved reports whether a label names the object, and so is none of the series. claims: one of the
// labels is ObjectLabel.
func isUnserved(key string, claims bool, about *metric.Object) bool {
	return key == ObjectLabel || claims && key == NamespaceLabel && !about.External()
}

// inTable returns a family with the labels that its series have in the table. Nil stays nil.
func inTable(about *metric.Object, f *family) *family {
	if f == nil || !slices.ContainsFunc(f.Metrics, func(m exposition.Metric) bool { return has(m.Labels, ObjectLabel) }) {
		return f
	}
	var d sampleBuilder
	series := *f
	series.Metrics = slices.Clone(f.Metrics)
	for i := range series.Metrics {
		series.Metrics[i].Labels = slices.Clone(d.seriesLabels(about, f.Metrics[i].Labels))
	}
	return &series
}

// labelSet is seriesLabels as a set.
func (d *sampleBuilder) labelSet(about *metric.Object, f *family, i int) metric.Labels {
	packed, _ := metric.UnpackLabels(string(metric.AppendLabels(nil, d.seriesLabels(about, f.Metrics[i].Labels))))
	return packed
}
