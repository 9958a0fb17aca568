package exposition

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Clone copies a family into memory of its own, in few pieces: they live and go together.
func (f Family) Clone() Family {
	size, labels := len(f.Name)+len(f.Help), 0
	for i := range f.Metrics {
		labels += len(f.Metrics[i].Labels)
		for _, l := range f.Metrics[i].Labels {
			size += len(l.Key) + len(l.Value)
		}
	}
	c := cloner{labels: make([]metric.Label, 0, labels)}
	c.text.Grow(size)
	f.Name, f.Help = c.string(f.Name), c.string(f.Help)
	f.Metrics = slices.Clone(f.Metrics)
	for i := range f.Metrics {
		c.metric(&f.Metrics[i])
	}
	return f
}

// cloner grew its text and labels to what is needed before the first piece was cut from them, so that they never move.
type cloner struct {
	text   strings.Builder
	labels []metric.Label
}

func (c *cloner) string(s string) string {
	at := c.text.Len()
	c.text.WriteString(s)
	return c.text.String()[at:]
}

func (c *cloner) metric(m *Metric) {
	at := len(c.labels)
	for _, l := range m.Labels {
		c.labels = append(c.labels, metric.Label{Key: c.string(l.Key), Value: c.string(l.Value)})
	}
	m.Labels = c.labels[at:len(c.labels):len(c.labels)]
	if m.Summary != nil {
		s := *m.Summary
		s.Quantiles = slices.Clone(s.Quantiles)
		m.Summary = &s
	}
	if m.Histogram != nil {
		h := *m.Histogram
		h.Buckets = slices.Clone(h.Buckets)
		m.Histogram = &h // Native is never written to: it may be shared
	}
}
