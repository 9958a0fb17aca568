package natsbus

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

var (
	connectionsDesc = prometheus.NewDesc("sluice_replica_connections",
		"Connections to other replicas; with nats-url, 1 while connected to NATS.", nil, nil)
	droppedDesc = prometheus.NewDesc("sluice_replica_dropped_messages_total",
		"Messages to other replicas that were dropped because the connection did not take them.", nil, nil)
	slowDesc = prometheus.NewDesc("sluice_replica_slow_consumers_total",
		"Times that messages were dropped because this replica did not handle them fast enough, "+
			"or another replica was disconnected because it did not take them.", nil, nil)
	refusedDesc = prometheus.NewDesc("sluice_replica_refused_connections_total",
		"Connections between replicas that were refused because of the other end's certificate.", nil, nil)
	expiresDesc = prometheus.NewDesc("sluice_replica_certificate_expires_timestamp_seconds",
		"Unix time at which the certificate of the connections between replicas expires; absent without one.", nil, nil)
)

// Describe implements prometheus.Collector.
func (b *Bus) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, connectionsDesc, droppedDesc, slowDesc, refusedDesc, expiresDesc)
}

// Collect implements prometheus.Collector.
func (b *Bus) Collect(ch chan<- prometheus.Metric) {
	connections, slow := 0, b.slow.Load()
	if b.server != nil {
		connections = b.server.NumRemotes()
		slow += uint64(b.server.NumSlowConsumers())
	} else if b.conn.IsConnected() {
		connections = 1
	}
	collect.Gauge(ch, connectionsDesc, connections)
	collect.Counter(ch, droppedDesc, b.dropped.Load())
	collect.Counter(ch, slowDesc, slow)
	if b.secured == nil {
		return
	}
	b.secured.Look() // there may be no handshake for months
	collect.Counter(ch, refusedDesc, b.secured.Refused())
	collect.Gauge(ch, expiresDesc, b.secured.Expires())
}
