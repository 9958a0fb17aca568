package agents

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

type counters struct{ streams, frames atomic.Uint64 }

var (
	agentsDesc  = prometheus.NewDesc("sluice_agents", "Nodes whose agent is connected.", nil, nil)
	streamsDesc = prometheus.NewDesc("sluice_agents_streams_total", "Streams that agents have begun.", nil, nil)
	framesDesc  = prometheus.NewDesc("sluice_agents_frames_total", "Frames of agents received.", nil, nil)
	runsDesc    = prometheus.NewDesc("sluice_agents_runs", "Runs of agents that are remembered, connected or not.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{agentsDesc, streamsDesc, framesDesc, runsDesc} {
		ch <- d
	}
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
	gauge := func(d *prometheus.Desc, v int) prometheus.Metric {
		return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v uint64) prometheus.Metric {
		return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	ch <- gauge(agentsDesc, agents)
	ch <- gauge(runsDesc, runs)
	ch <- counter(streamsDesc, s.count.streams.Load())
	ch <- counter(framesDesc, s.count.frames.Load())
}
