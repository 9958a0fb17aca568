package serieshttp

import "github.com/prometheus/client_golang/prometheus"

var (
	pagesDesc = prometheus.NewDesc("sluice_export_pages_total",
		"Pages of all series (GET /metrics/series), by outcome: complete, aborted (the scraper was too slow or went away, or the disk did not answer), rejected (too many at once).",
		[]string{"outcome"}, nil)
	leftOutDesc = prometheus.NewDesc("sluice_export_left_out_series",
		"Series and metrics that the last complete page of all series left out, because others had their name and labels.", nil, nil)
)

// Describe implements prometheus.Collector.
func (h *Handler) Describe(ch chan<- *prometheus.Desc) {
	ch <- pagesDesc
	ch <- leftOutDesc
}

// Collect implements prometheus.Collector.
func (h *Handler) Collect(ch chan<- prometheus.Metric) {
	for outcome, n := range map[string]uint64{"complete": h.complete.Load(), "aborted": h.aborted.Load(), "rejected": h.rejected.Load()} {
		ch <- prometheus.MustNewConstMetric(pagesDesc, prometheus.CounterValue, float64(n), outcome)
	}
	ch <- prometheus.MustNewConstMetric(leftOutDesc, prometheus.GaugeValue, float64(h.leftOut.Load()))
}
