package relay

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

var (
	linesDesc = prometheus.NewDesc("sluice_relay_lines_total",
		"StatsD lines for each relay target, by outcome: sent, dropped (the queue was full), failed (the write failed).",
		[]string{"target", "outcome"}, nil)
	waitingDesc = prometheus.NewDesc("sluice_relay_waiting_bytes",
		"StatsD lines that wait for a relay target.", []string{"target"}, nil)
)

// Describe implements prometheus.Collector.
func (r *Relay) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, linesDesc, waitingDesc)
}

// Collect implements prometheus.Collector.
func (r *Relay) Collect(ch chan<- prometheus.Metric) {
	for _, t := range r.targets {
		for outcome, n := range map[string]uint64{"sent": t.sent.Load(), "dropped": t.dropped.Load(),
			"failed": t.failed.Load()} {
			collect.Counter(ch, linesDesc, n, t.name, outcome)
		}
		collect.Gauge(ch, waitingDesc, t.size(), t.name)
	}
}
