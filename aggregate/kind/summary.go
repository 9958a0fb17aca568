package kind

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// Summary returns the timers read so far as a summary: count and sum since the series' births, and
// quantiles over the window. A quantile is NaN if nothing was observed in the window, as
// Prometheus' clients write it. Of one timer with pushed quantiles, these are returned instead.
func (r *Reader) Summary(quantiles []float64, into *metric.Summary) {
	into.Count, into.Sum = r.observed, r.sum
	into.Quantiles = into.Quantiles[:0]
	if r.summaries > 0 {
		if r.Series == 1 {
			into.Quantiles = append(into.Quantiles, r.quantiles...)
		}
		return
	}
	for _, q := range quantiles {
		v := math.NaN()
		if r.Distribution.Total > 0 {
			v = r.Distribution.quantile(q)
		}
		into.Quantiles = append(into.Quantiles, metric.Quantile{Q: q, Value: v})
	}
}
