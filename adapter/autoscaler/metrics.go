package autoscaler

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/collect"
	"github.com/sluice-metrics/sluice/metric"
)

var (
	missingDesc = prometheus.NewDesc("sluice_autoscaler_metric_missing",
		"1 if Sluice has no value for a metric that a HorizontalPodAutoscaler names, else 0; absent if another server is asked.",
		[]string{"namespace", "hpa", "metric"}, nil)
	heldBackDesc = prometheus.NewDesc("sluice_autoscaler_metric_held_back",
		"1 if pods that lack a value of a Pods metric, or whose series a limit rejects, change or may change what a HorizontalPodAutoscaler decides, else 0; absent while it is missing.",
		[]string{"namespace", "hpa", "metric"}, nil)
	valueDesc = prometheus.NewDesc("sluice_autoscaler_metric_value",
		"Value of a metric that a HorizontalPodAutoscaler names: the mean of the pods that have one, or the sum of the series; absent while it is missing.",
		[]string{"namespace", "hpa", "metric"}, nil)
)

// Describe implements prometheus.Collector.
func (w *Watcher) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, missingDesc, heldBackDesc, valueDesc)
}

// Collect implements prometheus.Collector. The values are those of the last round.
func (w *Watcher) Collect(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	send := func(desc *prometheus.Desc, value float64, labels ...string) {
		if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...); err == nil {
			ch <- m // an error: the label is not UTF-8
		}
	}
	each := map[string]int{} // metrics by namespace
	for _, key := range slices.SortedFunc(maps.Keys(w.held), name.compare) {
		h := w.held[key]
		var sent []string // two equal labels would fail the whole scrape
		for i := range h.metrics {
			s, label := &h.metrics[i], labelOf(h.document.Metrics, i)
			if !s.asked || slices.Contains(sent, label) || each[key.namespace] == maxCollected {
				continue
			}
			sent = append(sent, label)
			each[key.namespace]++
			if s.missing {
				send(missingDesc, 1, key.namespace, key.name, label)
				continue
			}
			send(missingDesc, 0, key.namespace, key.name, label)
			if h.document.Metrics[i].Source == "Pods" { // no other is read from each pod
				send(heldBackDesc, collect.OneIf(s.hold.lasts()), key.namespace, key.name, label)
			}
			send(valueDesc, s.value.Float64(), key.namespace, key.name, label)
		}
	}
}

// maxCollected bounds the metrics of a namespace's autoscalers on a page of the operations port: its author chooses how many
// there are. Those of the first autoscalers by name are there.
const maxCollected = 5000

// maxLabel is the longest label, in bytes: the API server does not bound a metric's name.
const maxLabel = 300

// labelOf is the metric's name; if the autoscaler names it more than once, with object and selector.
func labelOf(all []inspect.AutoscalerMetric, i int) string {
	for j := range all {
		if j == i || all[j].Name != all[i].Name {
			continue
		}
		label := all[i].Source + " " + all[i].Name
		if all[i].ObjectName != "" {
			label += " of " + all[i].ObjectKind + "/" + all[i].ObjectName
		}
		if all[i].Selector != "" {
			label += " {" + all[i].Selector + "}"
		}
		return metric.Truncate(label, maxLabel)
	}
	return metric.Truncate(all[i].Name, maxLabel)
}
