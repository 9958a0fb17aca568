package group

import "github.com/prometheus/client_golang/prometheus"

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
	ch <- groupsDesc
	ch <- bytesDesc
	ch <- endedDesc
}

// Collect implements prometheus.Collector.
func (gs *Groups) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(groupsDesc, prometheus.GaugeValue, float64(gs.Count()))
	ch <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(gs.Bytes()))
	ch <- prometheus.MustNewConstMetric(endedDesc, prometheus.CounterValue, float64(gs.deleted.Load()), "deleted")
	ch <- prometheus.MustNewConstMetric(endedDesc, prometheus.CounterValue, float64(gs.expired.Load()), "expired")
}
