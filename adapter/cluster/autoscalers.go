package cluster

import (
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// autoscalers indexes the metrics that the autoscalers of each namespace name. One goroutine
// writes.
type autoscalers struct {
	observer *Observer

	mu    sync.RWMutex
	named map[objectName]*autoscaler
	// counts holds the number of autoscalers of a namespace that name a metric, without zeros.
	counts map[string]map[namedMetric]int
}

func newAutoscalers(observer *Observer) *autoscalers {
	return &autoscalers{observer: observer, named: map[objectName]*autoscaler{},
		counts: map[string]map[namedMetric]int{}}
}

// names reports whether an autoscaler of the namespace names the metric.
func (a *autoscalers) names(namespace string, one namedMetric) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.counts[namespace][one] > 0
}

func (a *autoscalers) put(now *autoscaler) { a.replaceOne(objectName{now.namespace, now.name}, now) }

func (a *autoscalers) drop(namespace, name string) { a.replaceOne(objectName{namespace, name}, nil) }

// replaceOne replaces the metrics of an autoscaler; now nil: it was deleted.
func (a *autoscalers) replaceOne(key objectName, now *autoscaler) {
	a.mu.Lock()
	var before, after []namedMetric
	if was := a.named[key]; was != nil {
		before = was.metrics
	}
	delete(a.named, key)
	if now != nil {
		after, a.named[key] = now.metrics, now
	}
	counts := a.counts[key.namespace]
	if counts == nil {
		counts = map[namedMetric]int{}
		a.counts[key.namespace] = counts
	}
	changed := false
	for _, one := range after {
		if counts[one]++; counts[one] == 1 {
			changed = true
		}
	}
	for _, one := range before {
		if counts[one]--; counts[one] == 0 {
			delete(counts, one)
			changed = true
		}
	}
	if len(counts) == 0 {
		delete(a.counts, key.namespace)
	}
	a.mu.Unlock()
	if changed {
		a.observer.autoscalersChanged(key.namespace)
	}
}

func (a *autoscalers) replace(all []*autoscaler) {
	listed := make(map[objectName]bool, len(all))
	for _, one := range all {
		listed[objectName{one.namespace, one.name}] = true
	}
	var gone []objectName
	a.mu.RLock()
	for key := range a.named {
		if !listed[key] {
			gone = append(gone, key)
		}
	}
	a.mu.RUnlock()
	for _, one := range all {
		a.put(one)
	}
	for _, key := range gone {
		a.drop(key.namespace, key.name)
	}
}

// onObjects stands for any resource except pods in a namedMetric.
const onObjects = "*"

// namedMetric is a metric that an autoscaler names: of pods, of another object, or (empty resource)
// an external one.
type namedMetric struct{ resource, name string }

// autoscaler is the part of a HorizontalPodAutoscaler that is kept.
type autoscaler struct {
	namespace, name string
	metrics         []namedMetric // without duplicates
}

func newAutoscaler(from any) (*autoscaler, bool) {
	of, ok := from.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil, false
	}
	short := &autoscaler{namespace: of.Namespace, name: of.Name}
	for i := range of.Spec.Metrics {
		if one, ok := metricNamedBy(of.Namespace, &of.Spec.Metrics[i]); ok &&
			!slices.Contains(short.metrics, one) {
			short.metrics = append(short.metrics, one)
		}
	}
	return short, true
}

// metricNamedBy reads a metric of an autoscaler's spec. Resource and container metrics are not
// Sluice's.
func metricNamedBy(namespace string, spec *autoscalingv2.MetricSpec) (namedMetric, bool) {
	switch {
	case spec.Pods != nil:
		return namedMetric{podResource, bareName(spec.Pods.Metric.Name)}, true
	case spec.External != nil:
		return namedMetric{"", bareName(spec.External.Metric.Name)}, true
	case spec.Object != nil:
		switch of := spec.Object.DescribedObject; of.Kind {
		case "Pod":
			return namedMetric{podResource, bareName(spec.Object.Metric.Name)}, true
		case "Namespace":
			if of.Name != namespace {
				return namedMetric{}, false // an autoscaler has no effect on another namespace's limits
			}
		}
		return namedMetric{onObjects, bareName(spec.Object.Metric.Name)}, true
	}
	return namedMetric{}, false
}

// bareName removes stat and window from a metric's name in a spec, where "\|" may stand for "/"
// (external metrics API proposal).
func bareName(name string) string {
	return metric.ParseExpression(strings.ReplaceAll(name, `\|`, "/")).Name
}
