package exposition

import (
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// Plain returns the samples of a histogram or a summary as families of plain numbers, which text without
// types has: "h_bucket", "h_sum" and "h_count", and the quantiles under the family's own name. It returns
// no native buckets.
func Plain(f *Family) []Family {
	number := CounterType
	if f.Type == GaugeHistogramType {
		number = GaugeType
	}
	plain := []Family{
		{Name: f.Name, Help: f.Help, Type: GaugeType},
		{Name: f.Name + "_bucket", Type: number},
		{Name: f.Name + "_sum", Type: number},
		{Name: f.Name + "_count", Type: number},
	}
	add := func(to int, labels []metric.Label, value float64) {
		plain[to].Metrics = append(plain[to].Metrics, Metric{Labels: labels, Value: value})
	}
	for _, m := range f.Metrics {
		switch {
		case m.Summary != nil:
			for _, q := range m.Summary.Quantiles {
				add(0, withNumber(m.Labels, "quantile", q.Quantile), q.Value)
			}
			add(2, m.Labels, m.Summary.Sum)
			add(3, m.Labels, m.Summary.Count)
		case m.Histogram != nil:
			for _, b := range m.Histogram.Buckets {
				add(1, withNumber(m.Labels, "le", b.UpperBound), b.Count)
			}
			add(2, m.Labels, m.Histogram.Sum)
			add(3, m.Labels, m.Histogram.Count)
		}
	}
	return slices.DeleteFunc(plain, func(f Family) bool { return len(f.Metrics) == 0 })
}

// withNumber adds a label in the spelling of OpenMetrics, in which Prometheus stores those of histograms
// and summaries.
func withNumber(labels []metric.Label, key string, number float64) []metric.Label {
	w := writer{format: OpenMetrics}
	w.float(number)
	return metric.SortLabels(append(slices.Clone(labels), metric.Label{Key: key, Value: string(w.dst)}))
}
