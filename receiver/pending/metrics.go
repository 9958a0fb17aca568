package pending

import "github.com/prometheus/client_golang/prometheus"

var (
	pendingSendersDesc = prometheus.NewDesc("sluice_pending_senders",
		"Senders of whom samples are held until it is known who they are.", nil, nil)
	pendingBytesDesc = prometheus.NewDesc("sluice_pending_bytes",
		"Memory of the samples that are held.", nil, nil)
	pendingFullDesc = prometheus.NewDesc("sluice_pending_full_total",
		"Samples refused because no more could be held.", nil, nil)
	pendingExpiredDesc = prometheus.NewDesc("sluice_pending_expired_total",
		"Samples refused because it did not become known in time whose they are.", nil, nil)
)

// Register registers what the room tells about itself. What became of the samples is in the Ledger.
func (p *Buffer) Register(registry prometheus.Registerer) error {
	return registry.Register(pendingMetrics{p})
}

// pendingMetrics is a prometheus.Collector.
type pendingMetrics struct{ room *Buffer }

func (m pendingMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pendingSendersDesc, pendingBytesDesc, pendingFullDesc, pendingExpiredDesc} {
		ch <- d
	}
}

func (m pendingMetrics) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(pendingSendersDesc, prometheus.GaugeValue, float64(m.room.senders.Load()))
	ch <- prometheus.MustNewConstMetric(pendingBytesDesc, prometheus.GaugeValue, float64(m.room.bytes.Load()))
	ch <- prometheus.MustNewConstMetric(pendingFullDesc, prometheus.CounterValue, float64(m.room.full.Load()))
	ch <- prometheus.MustNewConstMetric(pendingExpiredDesc, prometheus.CounterValue, float64(m.room.expired.Load()))
}
