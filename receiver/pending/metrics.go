package pending

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

var (
	pendingSendersDesc = prometheus.NewDesc("sluice_pending_senders",
		"Unknown senders with pending samples.", nil, nil)
	pendingBytesDesc = prometheus.NewDesc("sluice_pending_bytes",
		"Memory of pending samples, in bytes.", nil, nil)
	pendingFullDesc = prometheus.NewDesc("sluice_pending_full_total",
		"Samples rejected because a limit of pending samples was reached.", nil, nil)
	pendingExpiredDesc = prometheus.NewDesc("sluice_pending_expired_total",
		"Pending samples rejected because their sender did not become known in time.", nil, nil)
)

// Register registers the metrics of the buffer. The ledger has those of the samples.
func (p *Buffer) Register(registry prometheus.Registerer) error {
	return registry.Register(metrics{p})
}

// metrics is the buffer's prometheus.Collector.
type metrics struct{ buffer *Buffer }

func (m metrics) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, pendingSendersDesc, pendingBytesDesc, pendingFullDesc, pendingExpiredDesc)
}

func (m metrics) Collect(ch chan<- prometheus.Metric) {
	bytes, senders := m.buffer.room.held()
	collect.Gauge(ch, pendingSendersDesc, senders)
	collect.Gauge(ch, pendingBytesDesc, bytes)
	collect.Counter(ch, pendingFullDesc, m.buffer.full.Load())
	collect.Counter(ch, pendingExpiredDesc, m.buffer.expired.Load())
}
