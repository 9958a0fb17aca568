package agentwire

import "github.com/sluice-metrics/sluice/metric"

// HistogramOf returns a histogram as the protocol has it, with memory of its own; nil for nil.
func HistogramOf(h *metric.Histogram) *Histogram {
	if h == nil {
		return nil
	}
	w := &Histogram{Bounds: append([]float64(nil), h.Bounds...), Counts: append([]float64(nil), h.Counts...),
		Count: h.Count, Sum: h.Sum, Min: h.Min, Max: h.Max}
	for _, q := range h.Quantiles {
		w.Quantiles = append(w.Quantiles, &Quantile{Q: q.Q, Value: q.Value})
	}
	return w
}

// Metric returns the histogram, whose memory it shares; nil for nil. It is not checked.
func (w *Histogram) Metric() *metric.Histogram {
	if w == nil {
		return nil
	}
	h := &metric.Histogram{Bounds: w.Bounds, Counts: w.Counts, Count: w.Count, Sum: w.Sum, Min: w.Min, Max: w.Max}
	for _, q := range w.Quantiles {
		h.Quantiles = append(h.Quantiles, metric.Quantile{Q: q.GetQ(), Value: q.GetValue()})
	}
	return h
}
