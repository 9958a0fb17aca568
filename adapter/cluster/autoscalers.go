package cluster

import (
	"sync"
)

// autoscalers holds which metrics the autoscalers of each namespace name. One goroutine writes.
type autoscalers struct {
	observer *Observer

	mu    sync.RWMutex
	named map[objectName]*autoscaler
	// counts says how many autoscalers of a namespace name a metric; none that nobody does.
	counts map[string]map[namedMetric]int
}

func newAutoscalers(observer *Observer) *autoscalers {
	return &autoscalers{observer: observer, named: map[objectName]*autoscaler{}, counts: map[string]map[namedMetric]int{}}
}

// names reports whether an autoscaler of the namespace names the metric.
func (a *autoscalers) names(namespace string, one namedMetric) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.counts[namespace][one] > 0
}

func (a *autoscalers) put(now *autoscaler) { a.replaceOne(objectName{now.namespace, now.name}, now) }

func (a *autoscalers) drop(namespace, name string) { a.replaceOne(objectName{namespace, name}, nil) }

// replaceOne takes what an autoscaler named before out, and what it names now in. Nil: it is gone.
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
		a.observer.askedChanged(key.namespace)
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
