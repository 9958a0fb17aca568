package agents

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

type counters struct{ streams, frames atomic.Uint64 }

var (
	agentsDesc  = prometheus.NewDesc("sluice_agents", "Nodes whose agent is connected.", nil, nil)
	streamsDesc = prometheus.NewDesc("sluice_agents_streams_total", "Streams that agents have begun.", nil, nil)
	framesDesc  = prometheus.NewDesc("sluice_agents_frames_total", "Frames of agents received.", nil, nil)
	bytesDesc   = prometheus.NewDesc("sluice_agents_bytes", "Memory of the series that agents tell of, and of what is not applied yet.", nil, nil)
	limitDesc   = prometheus.NewDesc("sluice_agents_limit_bytes", "Limit of sluice_agents_bytes.", nil, nil)
	runsDesc    = prometheus.NewDesc("sluice_agents_runs", "Runs of agents that are remembered, connected or not.", nil, nil)
	expiresDesc = prometheus.NewDesc("sluice_agents_certificate_expires_timestamp_seconds",
		"Unix time at which the certificate of the port of agents expires; absent without one.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, agentsDesc, streamsDesc, framesDesc, bytesDesc, limitDesc, runsDesc, expiresDesc)
}

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	agents, runs := 0, len(s.runs)
	for _, n := range s.nodes {
		if n.streams > 0 {
			agents++
		}
	}
	s.mu.Unlock()
	collect.Gauge(ch, agentsDesc, agents)
	collect.Gauge(ch, bytesDesc, s.room.Held()+s.again.Held())
	collect.Gauge(ch, limitDesc, s.maxBytes)
	collect.Gauge(ch, runsDesc, runs)
	collect.Counter(ch, streamsDesc, s.count.streams.Load())
	collect.Counter(ch, framesDesc, s.count.frames.Load())
	if s.secured != nil {
		s.secured.Look() // there may be no handshake for months
		collect.Gauge(ch, expiresDesc, s.secured.Expires())
	}
}
