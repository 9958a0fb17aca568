package cluster

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/document"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// autoscalers holds the autoscalers of all namespaces, and indexes the metrics that they name. One
// goroutine writes.
type autoscalers struct {
	observer *Observer
	room     objectRoom // of their metrics

	mu    sync.RWMutex
	named map[objectName]*autoscaler
	// counts holds the number of autoscalers of a namespace that name a metric, without zeros.
	counts map[string]map[namedMetric]int
}

func newAutoscalers(observer *Observer) *autoscalers {
	return &autoscalers{observer: observer, room: newObjectRoom(0, maxAutoscalerRoom), named: map[objectName]*autoscaler{},
		counts: map[string]map[namedMetric]int{}}
}

// list returns the documents of a namespace's autoscalers (empty: of all), sorted by namespace and
// name.
func (a *autoscalers) list(namespace string) (all []*inspect.Autoscaler) {
	a.mu.RLock()
	for key, autoscaler := range a.named {
		if namespace == "" || key.namespace == namespace {
			all = append(all, autoscaler.document)
		}
	}
	a.mu.RUnlock()
	slices.SortFunc(all, func(a, b *inspect.Autoscaler) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// names reports whether an autoscaler of the namespace names the metric.
func (a *autoscalers) names(namespace string, n namedMetric) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.counts[namespace][n] > 0
}

func (a *autoscalers) put(now *autoscaler) { a.replaceOne(objectName{now.namespace, now.name}, now) }

func (a *autoscalers) drop(namespace, name string) {
	key := objectName{namespace, name}
	a.room.free(key)
	a.replaceOne(key, nil)
}

// replaceOne replaces the metrics of an autoscaler; now nil: it was deleted.
func (a *autoscalers) replaceOne(key objectName, now *autoscaler) {
	a.mu.Lock()
	var before, after []namedMetric
	var was, is *inspect.Autoscaler
	if one := a.named[key]; one != nil {
		before, was = one.metrics, one.document
	}
	delete(a.named, key)
	if now != nil {
		after, is, a.named[key] = now.metrics, now.document, now
	}
	counts := a.counts[key.namespace]
	if counts == nil {
		counts = map[namedMetric]int{}
		a.counts[key.namespace] = counts
	}
	changed := false
	for _, n := range after {
		if counts[n]++; counts[n] == 1 {
			changed = true
		}
	}
	for _, n := range before {
		if counts[n]--; counts[n] == 0 {
			delete(counts, n)
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
	a.observer.autoscalerChanged(key.namespace, key.name, was, is)
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
	a.room.freeOthers(func(key objectName) bool { return listed[key] })
}

const autoscalerResource = "horizontalpodautoscalers.autoscaling"

// onObjects stands for any resource except pods in a namedMetric.
const onObjects = "*"

// namedMetric is a metric that an autoscaler names: of pods, of another object, or (empty resource)
// an external one.
type namedMetric struct{ resource, name string }

// autoscaler is the part of a HorizontalPodAutoscaler that is kept.
type autoscaler struct {
	namespace, name string
	metrics         []namedMetric // without duplicates
	document        *inspect.Autoscaler
}

// convert makes the kept part of an autoscaler; without room, that without its metrics.
func (a *autoscalers) convert(from any) (*autoscaler, bool) {
	h, ok := from.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil, false
	}
	why := a.room.takeMetrics(h)
	if why != "" {
		h = withoutMetrics(h)
	}
	short := newAutoscaler(h)
	short.document.Unread = why
	return short, true
}

func newAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) *autoscaler {
	short := &autoscaler{namespace: h.Namespace, name: h.Name, document: document.Of(h)}
	for i := range h.Spec.Metrics {
		for _, n := range metricsNamedBy(h.Namespace, &h.Spec.Metrics[i]) {
			if !slices.Contains(short.metrics, n) {
				short.metrics = append(short.metrics, n)
			}
		}
	}
	return short
}

// withoutMetrics is an autoscaler of which little is kept.
func withoutMetrics(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	short := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta, Status: h.Status}
	short.Spec.MinReplicas, short.Spec.MaxReplicas = h.Spec.MinReplicas, h.Spec.MaxReplicas
	return short
}

// mayHavePods reports whether the metrics of a kind may be rolled up from pods: those of
// Kubernetes' workloads and Services, and of any custom resource.
func mayHavePods(c *autoscalingv2.CrossVersionObjectReference) bool {
	switch c.Kind {
	case "Deployment", replicaSetKind, "StatefulSet", "DaemonSet", "Job", "ReplicationController", "Service":
		return true
	}
	group := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind).Group
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// metricsNamedBy reads a metric of an autoscaler's spec. A metric that may be rolled up from pods
// names theirs, too. Resource and container metrics are not Sluice's.
func metricsNamedBy(namespace string, spec *autoscalingv2.MetricSpec) []namedMetric {
	switch {
	case spec.Pods != nil:
		return []namedMetric{{podResource, bareName(spec.Pods.Metric.Name)}}
	case spec.External != nil:
		return []namedMetric{{"", bareName(document.AskedExternal(spec.External.Metric.Name))}}
	case spec.Object != nil:
		name := bareName(spec.Object.Metric.Name)
		switch c := spec.Object.DescribedObject; {
		case c.Kind == "Pod":
			return []namedMetric{{podResource, name}}
		case c.Kind == "Namespace" && c.Name != namespace:
			return nil // an autoscaler has no effect on another namespace's limits
		case mayHavePods(&c):
			return []namedMetric{{onObjects, name}, {podResource, name}}
		}
		return []namedMetric{{onObjects, name}}
	}
	return nil
}

// bareName removes stat and window from a metric's name in a spec, where "\|" may stand for "/"
// (external metrics API proposal).
func bareName(name string) string {
	return metric.ParseExpression(strings.ReplaceAll(name, `\|`, "/")).Name
}
