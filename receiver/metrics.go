package receiver

import "github.com/prometheus/client_golang/prometheus"

var (
	connectionsDesc = prometheus.NewDesc("sluice_connections",
		"Open connections, by listener.", []string{"listener"}, nil)
	refusedDesc = prometheus.NewDesc("sluice_connections_refused_total",
		"Connections closed at once: the connection limit of the listener or of the client's address was reached, and no connection was idle.", []string{"listener"}, nil)
	yieldedDesc = prometheus.NewDesc("sluice_connections_yielded_total",
		"Idle connections closed for a new one: the connection limit of the listener or of the client's address was reached.", []string{"listener"}, nil)
)

// Register registers the metrics of connections. The ledger has those of samples.
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
