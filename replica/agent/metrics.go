package agent

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/operations"
)

var (
	connectedDesc = prometheus.NewDesc("sluice_agent_connected", "1 if a server hears the agent, else 0.", nil, nil)
	streamsDesc   = prometheus.NewDesc("sluice_agent_connections_total", "Connections to a server.", nil, nil)
	ackedDesc     = prometheus.NewDesc("sluice_agent_samples_acknowledged_total", "Samples that a server has on disk, or has rejected.", nil, nil)
	droppedDesc   = prometheus.NewDesc("sluice_agent_samples_dropped_total",
		"Samples dropped, by reason: limit (rejected, as the agent's memory or its number of series is used up), server (of a server that did not come back).",
		[]string{"reason"}, nil)
	heldDesc      = prometheus.NewDesc("sluice_agent_samples_held", "Samples that are not acknowledged.", nil, nil)
	heldBytesDesc = prometheus.NewDesc("sluice_agent_held_bytes", "Memory of series, and of samples that are not acknowledged.", nil, nil)
	framesDesc    = prometheus.NewDesc("sluice_agent_frames_held", "Frames that are not acknowledged.", nil, nil)
	seriesDesc    = prometheus.NewDesc("sluice_agent_series", "Series that the agent knows.", nil, nil)
	targetsDesc   = prometheus.NewDesc("sluice_agent_scrape_targets", "Endpoints of pods that the agent scrapes, as a server has told it.", nil, nil)
	oldestDesc    = prometheus.NewDesc("sluice_agent_oldest_frame_seconds", "Age of the oldest frame that is not acknowledged.", nil, nil)
)

// Describe implements prometheus.Collector.
func (l *Link) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectedDesc, streamsDesc, ackedDesc, droppedDesc, heldDesc, heldBytesDesc, framesDesc,
		seriesDesc, oldestDesc, targetsDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Link) Collect(ch chan<- prometheus.Metric) {
	s := l.collector.state(time.Now())
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	connected := 0.0
	if l.connected.Load() {
		connected = 1
	}
	gauge(connectedDesc, connected)
	counter(streamsDesc, l.connections.Load())
	counter(ackedDesc, l.collector.acknowledged.Load())
	counter(droppedDesc, l.collector.dropped.Load(), "limit")
	counter(droppedDesc, l.collector.lost.Load(), "server")
	gauge(heldDesc, float64(s.samples))
	gauge(heldBytesDesc, float64(s.held))
	gauge(framesDesc, float64(s.frames))
	gauge(seriesDesc, float64(s.series))
	gauge(oldestDesc, s.oldest.Seconds())
	if l.scrape != nil {
		gauge(targetsDesc, float64(l.scrape.number()))
	}
}

// Checks are those of the readiness page. An agent without a server receives all the same.
func (l *Link) Checks() []operations.Check {
	return []operations.Check{{Name: "server", Impaired: func() bool { return !l.connected.Load() }, State: func() (bool, string) {
		s := l.collector.state(time.Now())
		if l.connected.Load() {
			return true, fmt.Sprintf("connected to %s; %d samples are not acknowledged", l.cfg.Server, s.samples)
		}
		return true, fmt.Sprintf("%s is not heard (%s); %d samples are held", l.cfg.Server, *l.why.Load(), s.samples)
	}}}
}
