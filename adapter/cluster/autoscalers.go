package cluster

import (
	"cmp"
	"slices"
	"sync"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// autoscalers holds the autoscalers of all namespaces, and indexes the metrics that they name. One
// goroutine writes.
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

// list returns the documents of a namespace's autoscalers (empty: of all), sorted by namespace and
// name.
func (a *autoscalers) list(namespace string) (all []*inspect.Autoscaler) {
	a.mu.RLock()
	for key, one := range a.named {
		if namespace == "" || key.namespace == namespace {
			all = append(all, one.document)
		}
	}
	a.mu.RUnlock()
	slices.SortFunc(all, func(a, b *inspect.Autoscaler) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
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
}
