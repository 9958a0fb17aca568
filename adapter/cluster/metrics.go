package cluster

import "github.com/prometheus/client_golang/prometheus"

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
	for _, desc := range []*prometheus.Desc{podsDesc, syncedDesc, failuresDesc, unansweredDesc, eventsDesc, leaderDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (m viewMetrics) Collect(ch chan<- prometheus.Metric) {
	v := m.view
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(podsDesc, float64(v.pods.count()))
	synced := 0.0
	if ok, _ := v.Synced(); ok {
		synced = 1
	}
	gauge(syncedDesc, synced)
	for _, a := range v.allHealth() {
		counter(failuresDesc, a.failureCount(), a.resource)
		gauge(unansweredDesc, a.failingFor().Seconds(), a.resource)
	}
	counter(eventsDesc, v.events.sent.Load(), "sent")
	counter(eventsDesc, v.events.suppressed.Load(), "suppressed")
	counter(eventsDesc, v.events.dropped.Load(), "dropped")
	if v.events.lease != nil {
		holds := 0.0
		if v.events.lease.holds.Load() {
			holds = 1
		}
		gauge(leaderDesc, holds)
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
