package cluster

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// Reasons of the Events on a LimitRange.
const (
	ReasonBadLimit       = "BadPushedMetricsLimit"
	ReasonMisplacedLimit = "MisplacedPushedMetricsLimit"
)

// limitRangeResource is the canonical resource of LimitRanges.
const limitRangeResource = "limitranges"

// limitRanges holds what the LimitRanges say, by namespace. One goroutine writes.
type limitRanges struct {
	observer *Observer
	events   *events
	logger   *slog.Logger

	mu          sync.RWMutex
	byNamespace map[string]map[string]*limitRange
	lowest      map[string]metric.Limits
}

func newLimitRanges(observer *Observer, events *events, logger *slog.Logger) *limitRanges {
	return &limitRanges{
		observer: observer, events: events, logger: logger,
		byNamespace: map[string]map[string]*limitRange{},
		lowest:      map[string]metric.Limits{},
	}
}

// limits are the lowest of what the namespace's LimitRanges say.
func (l *limitRanges) limits(namespace string) metric.Limits {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if lowest, ok := l.lowest[namespace]; ok {
		return lowest
	}
	return metric.NoLimits()
}

func (l *limitRanges) put(now *limitRange) {
	l.mu.Lock()
	was := l.byNamespace[now.namespace][now.name]
	if was != nil && was.uid != now.uid {
		was = nil
	}
	if was != nil && was.version == now.version {
		l.mu.Unlock()
		return
	}
	now.keepValid(was)
	if l.byNamespace[now.namespace] == nil {
		l.byNamespace[now.namespace] = map[string]*limitRange{}
	}
	l.byNamespace[now.namespace][now.name] = now
	changed := l.recomputeLocked(now.namespace)
	l.mu.Unlock()

	l.reportFaults(now)
	if changed {
		l.observer.limitsChanged(now.namespace)
	}
}

// keep takes from the LimitRange as it was before what now cannot be a limit.
func (r *limitRange) keepValid(was *limitRange) {
	if was == nil {
		return
	}
	numbers, before := limitsIn(&r.limits), limitsIn(&was.limits)
	for i, bad := range r.invalid {
		if bad {
			*numbers[i] = *before[i]
		}
	}
}

func (l *limitRanges) drop(namespace, name string) {
	l.mu.Lock()
	delete(l.byNamespace[namespace], name)
	changed := l.recomputeLocked(namespace)
	l.mu.Unlock()
	if changed {
		l.observer.limitsChanged(namespace)
	}
}

func (l *limitRanges) replace(all []*limitRange) {
	listed := make(map[objectName]bool, len(all))
	for _, one := range all {
		listed[objectName{one.namespace, one.name}] = true
		l.put(one)
	}
	var gone []objectName
	l.mu.RLock()
	for namespace, named := range l.byNamespace {
		for name := range named {
			if key := (objectName{namespace, name}); !listed[key] {
				gone = append(gone, key)
			}
		}
	}
	l.mu.RUnlock()
	for _, key := range gone {
		l.drop(key.namespace, key.name)
	}
}

// settleLocked finds the lowest limits of the namespace anew, and reports whether they are others.
func (l *limitRanges) recomputeLocked(namespace string) bool {
	was, ok := l.lowest[namespace]
	if !ok {
		was = metric.NoLimits()
	}
	if len(l.byNamespace[namespace]) == 0 {
		delete(l.byNamespace, namespace)
		delete(l.lowest, namespace)
		return was != metric.NoLimits()
	}
	lowest := metric.NoLimits()
	numbers := limitsIn(&lowest)
	for _, one := range l.byNamespace[namespace] {
		for i, said := range limitsIn(&one.limits) {
			if *said != metric.Unsaid && (*numbers[i] == metric.Unsaid || *said < *numbers[i]) {
				*numbers[i] = *said
			}
		}
	}
	l.lowest[namespace] = lowest
	return was != lowest
}

// complain tells what is wrong with a LimitRange: in the log, and to its namespace in Events.
func (l *limitRanges) reportFaults(r *limitRange) {
	on := metric.Object{Resource: limitRangeResource, Namespace: r.namespace, Name: r.name, UID: r.uid}
	if len(r.faults) > 0 {
		what := strings.Join(r.faults, "; ")
		l.logger.Warn("LimitRange: the value before, or else the default, holds", "namespace", r.namespace, "name", r.name, "faults", what)
		l.events.add(on, ReasonBadLimit, what+". The value before, or else the default, holds.")
	}
	if r.misplacedFault != "" {
		l.logger.Error("LimitRange rejects pods", "namespace", r.namespace, "name", r.name, "fault", r.misplacedFault)
		l.events.add(on, ReasonMisplacedLimit, r.misplacedFault)
	}
}
