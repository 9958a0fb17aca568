package replica

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

// counters are written by many goroutines and read by collectors.
type counters struct {
	sent     atomic.Uint64
	rejected rejections
}

func (c *counters) init() { c.rejected.init() }

var (
	originsDesc = prometheus.NewDesc("sluice_replica_origins",
		"Other origins of which this replica holds a shadow.", nil, nil)
	seriesDesc = prometheus.NewDesc("sluice_replica_series",
		"Series of an origin's shadow.", []string{"origin"}, nil)
	bytesDesc = prometheus.NewDesc("sluice_replica_bytes",
		"Memory of an origin's shadow.", []string{"origin"}, nil)
	lagDesc = prometheus.NewDesc("sluice_replica_lag_seconds",
		"Time since the newest flush of an origin that is applied.", []string{"origin"}, nil)
	standingDesc = prometheus.NewDesc("sluice_replica_standing_still",
		"1 while an origin sends no new state, else 0.", []string{"origin"}, nil)
	cutOffDesc = prometheus.NewDesc("sluice_replica_cut_off",
		"1 while an origin lives and sends no new state, so its last rates stand, else 0.", []string{"origin"}, nil)
	offsetDesc = prometheus.NewDesc("sluice_replica_clock_offset_seconds",
		"Local clock minus the clock of an origin, plus the shortest time of a message.", []string{"origin"}, nil)
	sentDesc = prometheus.NewDesc("sluice_replica_sent_bytes_total",
		"Bytes of messages published.", nil, nil)
	receivedDesc = prometheus.NewDesc("sluice_replica_received_bytes_total",
		"Bytes of messages received from an origin.", []string{"origin"}, nil)
	gapsDesc = prometheus.NewDesc("sluice_replica_gaps_total",
		"Deltas of an origin that did not arrive.", []string{"origin"}, nil)
	resyncsDesc = prometheus.NewDesc("sluice_replica_resyncs_total",
		"Whole blocks of an origin that were applied.", []string{"origin"}, nil)
	rejectedDesc = prometheus.NewDesc("sluice_replica_rejected_total",
		"Messages rejected, origins that cannot be followed, and names that two processes have, by reason.",
		[]string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (r *Replica) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, originsDesc, seriesDesc, bytesDesc, lagDesc, standingDesc, cutOffDesc,
		offsetDesc, sentDesc, receivedDesc, gapsDesc, resyncsDesc, rejectedDesc)
}

// Collect implements prometheus.Collector.
func (r *Replica) Collect(ch chan<- prometheus.Metric) {
	all := byName(r.Origins())
	for _, originStatus := range all {
		collect.Gauge(ch, seriesDesc, originStatus.Series, originStatus.Name)
		collect.Gauge(ch, bytesDesc, originStatus.Bytes, originStatus.Name)
		if originStatus.Name == r.me.name {
			continue // the state of the own former epoch, which no longer moves
		}
		collect.Gauge(ch, lagDesc, originStatus.Lag.Seconds(), originStatus.Name)
		collect.Gauge(ch, standingDesc, collect.OneIf(originStatus.StandingStill), originStatus.Name)
		collect.Gauge(ch, cutOffDesc, collect.OneIf(originStatus.CutOff), originStatus.Name)
		collect.Gauge(ch, offsetDesc, originStatus.Offset.Seconds(), originStatus.Name)
		collect.Counter(ch, receivedDesc, originStatus.Received, originStatus.Name)
		collect.Counter(ch, gapsDesc, originStatus.Gaps, originStatus.Name)
		collect.Counter(ch, resyncsDesc, originStatus.Resyncs, originStatus.Name)
	}
	collect.Gauge(ch, originsDesc, r.others(all))
	collect.Counter(ch, sentDesc, r.count.sent.Load())
	j := &r.count.rejected
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, reason := range reasons {
		collect.Counter(ch, rejectedDesc, j.counts[reason], reason)
	}
}

// byName joins the epochs of each origin: sizes and counts add up, the rest is the newest epoch's.
func byName(all []OriginStatus) (joined []OriginStatus) {
	for _, originStatus := range all {
		last := len(joined) - 1
		if last < 0 || joined[last].Name != originStatus.Name {
			joined = append(joined, originStatus)
			continue
		}
		before := joined[last]
		if before.Lag < originStatus.Lag {
			before, originStatus = originStatus, before // one is the newer
		}
		originStatus.Series += before.Series
		originStatus.Bytes += before.Bytes
		originStatus.Gaps += before.Gaps
		originStatus.Resyncs += before.Resyncs
		originStatus.Received += before.Received
		joined[last] = originStatus
	}
	return joined
}
