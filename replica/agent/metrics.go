package agent

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
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
	collect.Describe(ch, connectedDesc, streamsDesc, ackedDesc, droppedDesc, heldDesc, heldBytesDesc, framesDesc,
		seriesDesc, oldestDesc, targetsDesc)
}

// Collect implements prometheus.Collector.
func (l *Link) Collect(ch chan<- prometheus.Metric) {
	s := l.collector.state(time.Now())
	collect.Gauge(ch, connectedDesc, collect.OneIf(l.connected.Load()))
	collect.Counter(ch, streamsDesc, l.connections.Load())
	collect.Counter(ch, ackedDesc, l.collector.acknowledged.Load())
	collect.Counter(ch, droppedDesc, l.collector.dropped.Load(), "limit")
	collect.Counter(ch, droppedDesc, l.collector.lost.Load(), "server")
	collect.Gauge(ch, heldDesc, s.samples)
	collect.Gauge(ch, heldBytesDesc, s.held)
	collect.Gauge(ch, framesDesc, s.frames)
	collect.Gauge(ch, seriesDesc, s.series)
	collect.Gauge(ch, oldestDesc, s.oldest.Seconds())
	if l.scrape != nil {
		collect.Gauge(ch, targetsDesc, l.scrape.number())
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
