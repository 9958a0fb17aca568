package limit

import (
	"iter"

	"github.com/sluice-metrics/sluice/metric"
)

// quotaKey names the owner of a quota: a pod by name and UID, or a namespace for everything except
// its pods. Objects outside of any namespace share the empty key, which has no limit.
type quotaKey struct{ namespace, pod, uid string }

func quotaKeyOf(o *metric.Object) quotaKey {
	switch o.Resource {
	case "pods":
		return quotaKey{o.Namespace, o.Name, o.UID}
	case "namespaces":
		return quotaKey{namespace: o.Name}
	}
	return quotaKey{namespace: o.Namespace}
}

// own is the object that all or most slots of the quota belong to: the pod, or the namespace's
// externals.
func (k quotaKey) own() metric.Object {
	if k.pod != "" {
		return metric.Object{Resource: "pods", Namespace: k.namespace, Name: k.pod, UID: k.uid}
	}
	return metric.Object{Namespace: k.namespace}
}

// limit is the part of a namespace's limits that applies to the quota.
func (k quotaKey) limit(l metric.Limits) metric.Limit {
	if k.pod != "" {
		return l.Pod
	}
	return l.Namespace
}

func (k quotaKey) String() string {
	if k.pod != "" {
		return "pods/" + k.pod + " in " + k.namespace
	}
	return "namespace " + k.namespace
}

// quota counts the metrics and series of one pod or namespace. Each pod has one, most with a few
// metrics and far below the limit, so rarely used fields are in extras.
type quota struct {
	key    quotaKey
	slots  []slot       // in the order in which they were taken; with a nameIndex, some may be empty
	extras *quotaExtras // nil: none
	next   *quota       // with the same hash
	// metrics and series count what holds a slot, without evicted metrics.
	metrics, series uint32
}

// quotaExtras holds the fields that few quotas need.
type quotaExtras struct {
	index *nameIndex
	// rejected names the metrics that were rejected, so each gets one Event.
	rejected   map[string]struct{}
	unmet      *unmet // nil: nothing was rejected since the limit changed
	rejections uint64 // series that were rejected since the quota exists
	foreign    uint32 // series of other origins, twins included
	idleWanted bool   // a metric was rejected since the last search for idle slots
}

// ensureExtras returns the extras, and makes them if necessary.
func (s *quota) ensureExtras() *quotaExtras {
	if s.extras == nil {
		s.extras = &quotaExtras{}
	}
	return s.extras
}

// rejected returns the names of rejected metrics; it may be nil.
func (s *quota) rejected() map[string]struct{} {
	if s.extras == nil {
		return nil
	}
	return s.extras.rejected
}

// clearRejected forgets all rejections.
func (s *quota) clearRejected() {
	if s.extras != nil {
		s.extras.rejected, s.extras.unmet = nil, nil
	}
}

// wasAdmitted forgets the rejection of a metric.
func (s *quota) wasAdmitted(name string) {
	if len(s.rejected()) == 0 {
		return
	}
	if delete(s.extras.rejected, name); len(s.extras.rejected) == 0 {
		s.clearRejected()
	}
}

func (s *quota) empty() bool { return len(s.slots) == 0 && len(s.rejected()) == 0 }

// taken yields the slots in use, in the order in which they were taken. They stay in place until a
// slot is added or removed.
func (s *quota) taken() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		for i := range s.slots {
			if one := &s.slots[i]; one.series > 0 && !yield(one) {
				return
			}
		}
	}
}

// enterSeries counts one more series, in a new slot if the metric has none. A restored slot may be
// older than those before it.
func (s *quota) enterSeries(o *metric.Object, name string, born uint32) {
	one := s.slot(name)
	if one == nil {
		one = s.addSlot(slot{name: name, since: born})
		s.metrics++
	}
	one.since = min(one.since, born)
	one.enter(o, s.key)
	if !one.evicted {
		s.series++
	}
}

// leaveSeries counts one series less. The last one frees the slot.
func (s *quota) leaveSeries(o *metric.Object, name string) {
	slot := s.slot(name)
	if slot == nil || !slot.leave(o, s.key) {
		return
	}
	if !slot.evicted {
		s.series--
	}
	if slot.series > 0 {
		return
	}
	if !slot.evicted {
		s.metrics--
	}
	s.removeSlot(slot)
}

// evict takes the slot away from its metric.
func (s *quota) evict(one *slot) {
	one.evicted = true
	s.metrics--
	s.series -= one.series
}

// newest returns the slot taken last among those that may be evicted; nil: none may.
func (s *quota) newest(mayGo func(*slot) bool) *slot {
	var found *slot
	for one := range s.taken() {
		if !one.evicted && (found == nil || one.since >= found.since) && mayGo(one) {
			found = one
		}
	}
	return found
}
