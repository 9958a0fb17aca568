package limit

import (
	"iter"

	"github.com/sluice-metrics/sluice/metric"
)

// scopeKey names what a limit holds for: a pod, by its UID too, or a namespace for all that is not on a pod. What is in no
// namespace shares the empty key, which nothing limits but the caps of the whole process.
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

// own is the object that all slots of the scope are of, or most: the pod, or what is external in the namespace.
func (k quotaKey) own() metric.Object {
	if k.pod != "" {
		return metric.Object{Resource: "pods", Namespace: k.namespace, Name: k.pod, UID: k.uid}
	}
	return metric.Object{Namespace: k.namespace}
}

// limit is what of the namespace's limits holds for the scope.
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

// scope is the books of one scope. There is one for each pod, most with a handful of metrics and far below the limit: so what
// few have stands apart.
type quota struct {
	key    quotaKey
	slots  []slot       // in the order in which they were taken; of a crowd, some may be empty
	extras *quotaExtras // nil: nothing of it
	next   *quota       // of the same hash
	// metrics and series count what holds a place: not what is leaving.
	metrics, series uint32
}

// rare is what few scopes have.
type quotaExtras struct {
	index *nameIndex
	// refused are metrics that found no place, so that each is told of once.
	rejected   map[string]struct{}
	idleWanted bool // something was refused since idle slots were last looked for
}

// more is what few scopes have, made where there is none.
func (s *quota) ensureExtras() *quotaExtras {
	if s.extras == nil {
		s.extras = &quotaExtras{}
	}
	return s.extras
}

// refused are the metrics that found no place; they may be nil.
func (s *quota) rejected() map[string]struct{} {
	if s.extras == nil {
		return nil
	}
	return s.extras.rejected
}

// forgive forgets all refusals.
func (s *quota) clearRejected() {
	if s.extras != nil {
		s.extras.rejected = nil
	}
}

func (s *quota) empty() bool { return len(s.slots) == 0 && len(s.rejected()) == 0 }

// held are the slots that somebody has, in the order in which they were taken. They stay where they are until one is added
// or the last series of one leaves.
func (s *quota) taken() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		for i := range s.slots {
			if one := &s.slots[i]; one.series > 0 && !yield(one) {
				return
			}
		}
	}
}

// enter counts one more series, in a new slot where the metric has none. A restored slot may be older than those
// before it.
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

// leave counts one series less. The last one frees the slot.
func (s *quota) leaveSeries(o *metric.Object, name string) {
	one := s.slot(name)
	if one == nil || !one.leave(o, s.key) {
		return
	}
	if !one.evicted {
		s.series--
	}
	if one.series > 0 {
		return
	}
	if !one.evicted {
		s.metrics--
	}
	s.removeSlot(one)
}

// evict takes the slot away.
func (s *quota) evict(one *slot) {
	one.evicted = true
	s.metrics--
	s.series -= one.series
}

// newest is the slot taken last among those that may go; nil: none may.
func (s *quota) newest(mayGo func(*slot) bool) *slot {
	var found *slot
	for one := range s.taken() {
		if !one.evicted && (found == nil || one.since >= found.since) && mayGo(one) {
			found = one
		}
	}
	return found
}

// holders are the names of the metrics that have a slot.
func (s *quota) metricNames() []string {
	var names []string
	for one := range s.taken() {
		if !one.evicted {
			names = append(names, one.name)
		}
	}
	return names
}
