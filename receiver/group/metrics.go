package group

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

var (
	groupsDesc = prometheus.NewDesc("sluice_groups",
		"Groups pushed to /metrics/job/... that have not ended.", nil, nil)
	bytesDesc = prometheus.NewDesc("sluice_group_bytes",
		"Approximate memory of the groups, in bytes.", nil, nil)
	endedDesc = prometheus.NewDesc("sluice_groups_ended_total",
		"Groups that ended, by cause: deleted, or expired at the end of their TTL.", []string{"cause"}, nil)
)

// Describe implements prometheus.Collector.
func (gs *Groups) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, groupsDesc, bytesDesc, endedDesc)
}

// Collect implements prometheus.Collector.
func (gs *Groups) Collect(ch chan<- prometheus.Metric) {
	collect.Gauge(ch, groupsDesc, gs.Count())
	collect.Gauge(ch, bytesDesc, gs.Bytes())
	collect.Counter(ch, endedDesc, gs.deleted.Load(), "deleted")
	collect.Counter(ch, endedDesc, gs.expired.Load(), "expired")
}
