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

// Admit enters one more series, or says that it may not be. The strings are kept.
func (b *Registry) Admit(o *metric.Object, name string, born uint32) (refused metric.Reason) {
	b.withQuota(quotaKeyOf(o), func(s *quota) {
		if refused = b.admitLocked(s, o, name); refused == metric.Applied {
			delete(s.rejected(), name)
			s.enterSeries(o, name, born)
		}
	})
	return refused
}

// admitLocked decides about a series. That its object lives is seen under the lock that Gone takes: either it is dead
// here, or Gone comes later and finds the series.
func (b *Registry) admitLocked(s *quota, o *metric.Object, name string) metric.Reason {
	if !o.External() && !b.rules.Alive(*o) {
		return metric.Identity
	}
	if s.key.namespace == "" {
		return metric.Applied
	}
	if own := s.slot(name); own != nil && own.evicted {
		return metric.OverLimit // for a moment: when its old series are out, the next sample asks again
	}
	limit := s.key.limit(b.rules.Limits(s.key.namespace).Or(b.config.limits()))
	if !b.freeSlotLocked(s, limit, o, name) {
		b.rejectLocked(s, limit, o, name)
		return metric.OverLimit
	}
	return metric.Applied
}

// Enter enters a series that is there already. The strings are kept.
func (b *Registry) Enter(o *metric.Object, name string, born uint32) {
	b.withQuota(quotaKeyOf(o), func(s *quota) { s.enterSeries(o, name, born) })
}

// Leave says that a series is gone.
func (b *Registry) Leave(o *metric.Object, name string) {
	b.withQuota(quotaKeyOf(o), func(s *quota) { s.leaveSeries(o, name) })
}
