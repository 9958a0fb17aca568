package receiver

import "github.com/prometheus/client_golang/prometheus"

var (
	connectionsDesc = prometheus.NewDesc("sluice_connections",
		"Open connections, by listener.", []string{"listener"}, nil)
	refusedDesc = prometheus.NewDesc("sluice_connections_refused_total",
		"Connections closed at once because the listener, or their address, had as many as allowed and none of them was idle.", []string{"listener"}, nil)
	yieldedDesc = prometheus.NewDesc("sluice_connections_yielded_total",
		"Idle connections closed for a new one because the listener, or their address, had as many as allowed.", []string{"listener"}, nil)
)

// Register registers what the server tells about its connections. What they bring is in the Ledger.
func (s *Server) Register(registry prometheus.Registerer) error {
	return registry.Register(connectionMetrics{s})
}

// connectionMetrics is a prometheus.Collector.
type connectionMetrics struct{ server *Server }

func (m connectionMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- connectionsDesc
	ch <- refusedDesc
	ch <- yieldedDesc
}

func (m connectionMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.server.streams {
		ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(s.limiter.Len()), s.name)
		ch <- counter(refusedDesc, s.refused.Load(), s.name)
		ch <- counter(yieldedDesc, s.yielded.Load(), s.name)
	}
}

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
func (p *Pending) Register(registry prometheus.Registerer) error {
	return registry.Register(pendingMetrics{p})
}

// pendingMetrics is a prometheus.Collector.
type pendingMetrics struct{ room *Pending }

func (m pendingMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pendingSendersDesc, pendingBytesDesc, pendingFullDesc, pendingExpiredDesc} {
		ch <- d
	}
}

func (m pendingMetrics) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(pendingSendersDesc, prometheus.GaugeValue, float64(m.room.senders.Load()))
	ch <- prometheus.MustNewConstMetric(pendingBytesDesc, prometheus.GaugeValue, float64(m.room.bytes.Load()))
	ch <- counter(pendingFullDesc, m.room.full.Load())
	ch <- counter(pendingExpiredDesc, m.room.expired.Load())
}
