// Package collect sends metrics whose values are read when they are scraped.
package collect

import "github.com/prometheus/client_golang/prometheus"

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Describe sends descriptions.
func Describe(ch chan<- *prometheus.Desc, all ...*prometheus.Desc) {
	for _, d := range all {
		ch <- d
	}
}

// Counter sends the value of a counter. It panics if the labels are not as many as described, or not UTF-8.
func Counter[N number](ch chan<- prometheus.Metric, d *prometheus.Desc, v N, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

// Gauge is Counter for a gauge.
func Gauge[N number](ch chan<- prometheus.Metric, d *prometheus.Desc, v N, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

// OneIf is the value of a gauge that says yes or no.
func OneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
