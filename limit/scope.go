package limit

import (
	"iter"

	"github.com/sluice-metrics/sluice/metric"
)

// scopeKey names what a limit holds for: a pod, by its UID too, or a namespace for all that is not on a pod. What is in no
// namespace shares the empty key, which nothing limits but the caps of the whole process.
type scopeKey struct{ namespace, pod, uid string }

func scopeOf(o *metric.Object) scopeKey {
	switch o.Resource {
	case "pods":
		return scopeKey{o.Namespace, o.Name, o.UID}
	case "namespaces":
		return scopeKey{namespace: o.Name}
	}
	return scopeKey{namespace: o.Namespace}
}

// own is the object that all slots of the scope are of, or most: the pod, or what is external in the namespace.
func (k scopeKey) own() metric.Object {
	if k.pod != "" {
		return metric.Object{Resource: "pods", Namespace: k.namespace, Name: k.pod, UID: k.uid}
	}
	return metric.Object{Namespace: k.namespace}
}

// limit is what of the namespace's limits holds for the scope.
func (k scopeKey) limit(l metric.Limits) metric.Limit {
	if k.pod != "" {
		return l.Pod
	}
	return l.Namespace
}

func (k scopeKey) String() string {
	if k.pod != "" {
		return "pods/" + k.pod + " in " + k.namespace
	}
	return "namespace " + k.namespace
}

// scope is the books of one scope. There is one for each pod, most with a handful of metrics and far below the limit: so what
// few have stands apart.
type scope struct {
	key   scopeKey
	slots []slot // in the order in which they were taken; of a crowd, some may be empty
	rare  *rare  // nil: nothing of it
	next  *scope // of the same hash
	// metrics and series count what holds a place: not what is leaving.
	metrics, series uint32
}

// rare is what few scopes have.
type rare struct {
	crowd *crowd
	// refused are metrics that found no place, so that each is told of once.
	refused map[string]struct{}
	wanted  bool // something was refused since idle slots were last looked for
}

// more is what few scopes have, made where there is none.
func (s *scope) more() *rare {
	if s.rare == nil {
		s.rare = &rare{}
	}
	return s.rare
}

// refused are the metrics that found no place; they may be nil.
func (s *scope) refused() map[string]struct{} {
	if s.rare == nil {
		return nil
	}
	return s.rare.refused
}

// forgive forgets all refusals.
func (s *scope) forgive() {
	if s.rare != nil {
		s.rare.refused = nil
	}
}

func (s *scope) empty() bool { return len(s.slots) == 0 && len(s.refused()) == 0 }

// held are the slots that somebody has, in the order in which they were taken. They stay where they are until one is added
// or the last series of one leaves.
func (s *scope) held() iter.Seq[*slot] {
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
func (s *scope) enter(o *metric.Object, name string, born uint32) {
	one := s.find(name)
	if one == nil {
		one = s.add(slot{name: name, since: born})
		s.metrics++
	}
	one.since = min(one.since, born)
	one.enter(o, s.key)
	if !one.leaving {
		s.series++
	}
}

// leave counts one series less. The last one frees the slot.
func (s *scope) leave(o *metric.Object, name string) {
	one := s.find(name)
	if one == nil || !one.leave(o, s.key) {
		return
	}
	if !one.leaving {
		s.series--
	}
	if one.series > 0 {
		return
	}
	if !one.leaving {
		s.metrics--
	}
	s.remove(one)
}

// evict takes the slot away.
func (s *scope) evict(one *slot) {
	one.leaving = true
	s.metrics--
	s.series -= one.series
}

// newest is the slot taken last among those that may go; nil: none may.
func (s *scope) newest(mayGo func(*slot) bool) *slot {
	var found *slot
	for one := range s.held() {
		if !one.leaving && (found == nil || one.since >= found.since) && mayGo(one) {
			found = one
		}
	}
	return found
}

// holders are the names of the metrics that have a slot.
func (s *scope) holders() []string {
	var names []string
	for one := range s.held() {
		if !one.leaving {
			names = append(names, one.name)
		}
	}
	return names
}
