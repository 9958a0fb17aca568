package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

var (
	podsDesc = prometheus.NewDesc("sluice_cluster_pods",
		"Live pods in the cluster view.", nil, nil)
	syncedDesc = prometheus.NewDesc("sluice_cluster_synced",
		"1 once all watched resources of the cluster were read, else 0.", nil, nil)
	failuresDesc = prometheus.NewDesc("sluice_cluster_watch_errors_total",
		"Failed list, watch and discovery requests to the API server, by resource.", []string{"resource"}, nil)
	unansweredDesc = prometheus.NewDesc("sluice_cluster_unanswered_seconds",
		"Time since the API server stopped answering about a resource; 0: it answers.", []string{"resource"}, nil)
	eventsDesc = prometheus.NewDesc("sluice_cluster_events_total",
		"Kubernetes Events, by result: sent, suppressed (too many alike, or left to another replica), dropped (could not be written).", []string{"result"}, nil)
	leaderDesc = prometheus.NewDesc("sluice_replica_events_leader",
		"1 if this replica writes the Events about what all replicas see, else 0.", nil, nil)
)

// Register adds the view's metrics to a registry.
func (v *View) Register(registerer prometheus.Registerer) error {
	return registerer.Register(viewMetrics{v})
}

// viewMetrics is a prometheus.Collector.
type viewMetrics struct{ view *View }

// Describe implements prometheus.Collector.
func (m viewMetrics) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, podsDesc, syncedDesc, failuresDesc, unansweredDesc, eventsDesc, leaderDesc)
}

// Collect implements prometheus.Collector.
func (m viewMetrics) Collect(ch chan<- prometheus.Metric) {
	v := m.view
	collect.Gauge(ch, podsDesc, v.pods.count())
	synced, _ := v.Synced()
	collect.Gauge(ch, syncedDesc, collect.OneIf(synced))
	for _, a := range v.allHealth() {
		collect.Counter(ch, failuresDesc, a.failureCount(), a.resource)
		collect.Gauge(ch, unansweredDesc, a.failingFor().Seconds(), a.resource)
	}
	collect.Counter(ch, eventsDesc, v.events.sent.Load(), "sent")
	collect.Counter(ch, eventsDesc, v.events.suppressed.Load(), "suppressed")
	collect.Counter(ch, eventsDesc, v.events.dropped.Load(), "dropped")
	if v.events.lease != nil {
		collect.Gauge(ch, leaderDesc, collect.OneIf(v.events.lease.holds.Load()))
	}
}

func (v *View) allHealth() []*requestHealth {
	all := []*requestHealth{v.discoverer.health}
	for _, r := range v.required {
		all = append(all, r.health)
	}
	for _, watchedKind := range v.watchedKinds() {
		all = append(all, watchedKind.health)
	}
	if v.endpoints.isWanted() {
		all = append(all, v.endpoints.health)
	}
	for _, customObjects := range v.custom {
		all = append(all, customObjects.watch.health)
	}
	return all
}
