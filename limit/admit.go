package limit

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// fits reports whether there is room for one more series of a metric, whose slot is own; nil: it has none.
func (s *quota) fits(own *slot, limit metric.Limit) bool {
	return int64(s.series) < int64(limit.Series) && (own != nil || int64(s.metrics) < int64(limit.Metrics))
}

// makeRoomLocked reports whether there is room for one more series of a metric. One that an autoscaler asks for takes it
// from the newest that none asks for.
func (b *Registry) freeSlotLocked(s *quota, limit metric.Limit, o *metric.Object, name string) bool {
	own := s.slot(name)
	if s.fits(own, limit) {
		return true
	}
	if !b.enforcing.Load() || limit.Metrics == 0 || limit.Series == 0 || !b.rules.NamedByAutoscaler(s.key.namespace, o.Resource, name) {
		return false
	}
	for !s.fits(own, limit) {
		victim := s.newest(func(one *slot) bool { return one != own && !b.namedByAutoscaler(s, one) })
		if victim == nil {
			return false
		}
		b.evictLocked(s, victim, fmt.Sprintf("%q lost its place to %q, which an autoscaler asks for", victim.name, name))
	}
	return true
}

// asked reports whether an autoscaler asks for what the slot holds.
func (b *Registry) namedByAutoscaler(s *quota, one *slot) bool {
	if one.byObject == nil { // asked for each slot of a scope that is full
		return b.rules.NamedByAutoscaler(s.key.namespace, s.key.own().Resource, one.name)
	}
	for o := range one.byObject {
		if b.rules.NamedByAutoscaler(s.key.namespace, o.Resource, one.name) {
			return true
		}
	}
	return false
}

// evictLocked takes a slot away, and has its series removed.
func (b *Registry) evictLocked(s *quota, one *slot, why string) {
	s.evict(one)
	b.metrics.shed.Inc()
	objects, name := one.objects(s.key), one.name
	b.enqueue(func() {
		for _, o := range objects {
			b.table.Shed(o, name)
		}
		b.events.Event(subject(objects[0]), "MetricShed", why)
	})
}

// trimLocked takes slots away until the scope is within its limit: the newest that nobody asks for first. Series beyond
// the limit do not cost an autoscaler its metric; only too many metrics do.
func (b *Registry) enforceLocked(s *quota, limit metric.Limit) {
	unasked := func(one *slot) bool { return !b.namedByAutoscaler(s, one) }
	tooMany := func() bool { return int64(s.metrics) > int64(limit.Metrics) }
	for tooMany() || int64(s.series) > int64(limit.Series) {
		victim := s.newest(unasked)
		if victim == nil && tooMany() {
			victim = s.newest(func(*slot) bool { return true })
		}
		if victim == nil {
			return
		}
		b.evictLocked(s, victim, fmt.Sprintf("%q lost its place: the limit is %d metrics and %d series now", victim.name, limit.Metrics, limit.Series))
	}
}
