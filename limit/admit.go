package limit

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// fits reports whether the quota has a slot for one more series of a metric. own is the metric's
// slot, nil if it has none.
func (s *quota) fits(own *slot, limit metric.Limit) bool {
	return int64(s.series) < int64(limit.Series) && (own != nil || int64(s.metrics) < int64(limit.Metrics))
}

// freeSlotLocked reports whether one more series of a metric fits. For a metric that an autoscaler
// names, it evicts the newest metrics that none names.
func (r *Registry) freeSlotLocked(s *quota, limit metric.Limit, o *metric.Object, name string) bool {
	own := s.slot(name)
	if s.fits(own, limit) {
		return true
	}
	if s.foreign() > 0 && r.enforcing.Load() {
		return r.fitsAfterVerdictLocked(s, own, limit, o, name)
	}
	if !r.enforcing.Load() || limit.Metrics == 0 || limit.Series == 0 ||
		!r.rules.NamedByAutoscaler(s.key.namespace, o.Resource, name) {
		return false
	}
	for !s.fits(own, limit) {
		victim := s.newest(func(one *slot) bool { return one != own && !r.namedByAutoscaler(s, one) })
		if victim == nil {
			return false
		}
		r.evictLocked(s, victim, fmt.Sprintf("%q was evicted for %q, which a HorizontalPodAutoscaler names",
			victim.name, name))
	}
	return true
}

// namedByAutoscaler reports whether an autoscaler names the slot's metric.
func (r *Registry) namedByAutoscaler(s *quota, one *slot) bool {
	if one.byObject == nil { // the common case: checked for each slot of a full quota
		return r.rules.NamedByAutoscaler(s.key.namespace, s.key.own().Resource, one.name)
	}
	for o := range one.byObject {
		if r.rules.NamedByAutoscaler(s.key.namespace, o.Resource, one.name) {
			return true
		}
	}
	return false
}

// Admit counts one more series, or rejects it with a reason. This is where a new series meets its
// limit. It keeps the strings, except for the labels.
func (r *Registry) Admit(o *metric.Object, name string, labels metric.Labels, born uint32) (refused metric.Reason) {
	r.withQuota(quotaKeyOf(o), func(s *quota) {
		if refused = r.admitLocked(s, o, name, labels); refused == metric.Applied {
			delete(s.rejected(), name)
			r.enterLocked(s, ownOrigin, o, name, labels, born)
		}
	})
	return refused
}

// admitLocked decides about a series. It checks that the object lives under the lock that
// ObjectGone takes: either the object is already dead here, or ObjectGone comes later and finds the
// series.
func (r *Registry) admitLocked(s *quota, o *metric.Object, name string, labels metric.Labels) metric.Reason {
	if !o.External() && !r.rules.Alive(*o) {
		return metric.Identity
	}
	if s.key.namespace == "" || r.hasTwinLocked(s, o, name, labels) {
		return metric.Applied
	}
	if own := s.slot(name); own != nil && own.evicted {
		return metric.OverLimit // until its evicted series are removed; then the next sample asks again
	}
	limit := r.limitOf(s.key)
	if !r.freeSlotLocked(s, limit, o, name) {
		r.rejectLocked(s, limit, o, name)
		return metric.OverLimit
	}
	return metric.Applied
}

// limitOf is the limit of a quota.
func (r *Registry) limitOf(k quotaKey) metric.Limit {
	return k.limit(r.rules.Limits(k.namespace).OrDefault(r.config.limits()))
}

// Enter counts a restored series without checking a limit. It keeps the strings, except for the
// labels.
func (r *Registry) Enter(o *metric.Object, name string, labels metric.Labels, born uint32) {
	r.withQuota(quotaKeyOf(o), func(s *quota) { r.enterLocked(s, ownOrigin, o, name, labels, born) })
}

// Leave counts one series less.
func (r *Registry) Leave(o *metric.Object, name string, labels metric.Labels) {
	r.withQuota(quotaKeyOf(o), func(s *quota) { r.leaveLocked(s, ownOrigin, o, name, labels) })
}
