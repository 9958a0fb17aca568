package receiver

import "github.com/prometheus/client_golang/prometheus"

var (
	connectionsDesc = prometheus.NewDesc("sluice_connections",
		"Open connections, by listener.", []string{"listener"}, nil)
	refusedDesc = prometheus.NewDesc("sluice_connections_refused_total",
		"Connections closed at once because the listener had as many as it may have.", []string{"listener"}, nil)
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
}

func (m connectionMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.server.streams {
		ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(s.connections.Load()), s.name)
		ch <- counter(refusedDesc, s.refused.Load(), s.name)
	}
}
