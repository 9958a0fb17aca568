package limit

import (
	"cmp"
	"fmt"
	"slices"

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
	victims, fits := r.roomLocked(s, limit, o, name)
	if !fits {
		return false
	}
	for _, victim := range victims {
		r.evictLocked(s, victim, fmt.Sprintf("%q was evicted for %q, which a HorizontalPodAutoscaler names",
			short(victim.name), short(name)))
	}
	if s.foreign() > 0 && !s.fits(s.slot(name), limit) {
		r.contests.add(s.key)
	}
	return true
}

// roomLocked reports whether one more series of a metric fits once the victims are evicted. It
// changes nothing.
func (r *Registry) roomLocked(s *quota, limit metric.Limit, o *metric.Object,
	name string) (victims []*slot, fits bool) {
	own := s.slot(name)
	switch {
	case s.fits(own, limit):
		return nil, true
	case !r.enforcing.Load():
		return nil, false
	case s.foreign() > 0:
		return nil, r.fitsAfterVerdictLocked(s, own, limit, o, name)
	case limit.Metrics == 0, limit.Series == 0, !r.cluster.NamedByAutoscaler(s.key.namespace, o.Resource, name):
		return nil, false
	}
	for candidate := range s.taken() {
		if candidate != own && !candidate.evicted && !r.namedByAutoscaler(s, candidate) {
			victims = append(victims, candidate)
		}
	}
	slices.Reverse(victims) // of slots of one age, the one taken last goes first
	slices.SortStableFunc(victims, func(a, b *slot) int { return cmp.Compare(b.since, a.since) })
	metrics, series := int64(s.metrics), int64(s.series)
	for i, victim := range victims {
		metrics, series = metrics-1, series-int64(victim.series)
		if series < int64(limit.Series) && (own != nil || metrics < int64(limit.Metrics)) {
			return victims[:i+1], true
		}
	}
	return nil, false
}

// namedByAutoscaler reports whether an autoscaler names the slot's metric.
func (r *Registry) namedByAutoscaler(s *quota, slot *slot) bool {
	if slot.byObject == nil { // the common case: checked for each slot of a full quota
		return r.cluster.NamedByAutoscaler(s.key.namespace, s.key.own().Resource, slot.name)
	}
	for o := range slot.byObject {
		if r.cluster.NamedByAutoscaler(s.key.namespace, o.Resource, slot.name) {
			return true
		}
	}
	return false
}

// Admit counts one more series, or rejects it with a reason: this is where a new series meets its
// limit. rejectLocked counts the rejection by namespace; the receiver counts the sample in its
// ledger.Account. Admit keeps the strings, except for the labels.
func (r *Registry) Admit(o *metric.Object, name string, labels metric.Labels, born uint32) (rejected metric.Reason) {
	r.withQuota(quotaKeyOf(o), func(s *quota) {
		if rejected = r.admitLocked(s, o, name, labels); rejected == metric.Applied {
			s.wasAdmitted(name)
			r.enterLocked(s, ownOrigin, o, name, labels, born)
		}
	})
	return rejected
}

// admitLocked decides about a series. It checks that the object lives under the lock that
// ObjectGone takes: either the object is already dead here, or ObjectGone comes later and finds the
// series.
func (r *Registry) admitLocked(s *quota, o *metric.Object, name string, labels metric.Labels) metric.Reason {
	if !o.External() && !r.cluster.Alive(*o) {
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
		r.rejectLocked(s, limit, o, name, labels)
		return metric.OverLimit
	}
	return metric.Applied
}

// limitOf is the limit of a quota.
func (r *Registry) limitOf(k quotaKey) metric.Limit {
	return k.limit(r.cluster.Limits(k.namespace).OrDefault(r.config.limits()))
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
