package group

import (
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
