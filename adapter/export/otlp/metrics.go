package otlp

import "github.com/prometheus/client_golang/prometheus"

var seriesDesc = prometheus.NewDesc("sluice_export_otlp_series_total",
	"Series for the OpenTelemetry Collector of export-otlp, by outcome: sent, lost.", []string{"outcome"}, nil)

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) { ch <- seriesDesc }

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(seriesDesc, prometheus.CounterValue, float64(e.sent.Load()), "sent")
	ch <- prometheus.MustNewConstMetric(seriesDesc, prometheus.CounterValue, float64(e.lost.Load()), "lost")
}
