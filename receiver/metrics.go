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
		ch <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(s.refused.Load()), s.name)
		ch <- prometheus.MustNewConstMetric(yieldedDesc, prometheus.CounterValue, float64(s.yielded.Load()), s.name)
	}
}
