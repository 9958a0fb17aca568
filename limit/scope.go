package limit

import (
	"slices"
	"strings"

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

// scope is the books of one scope.
type scope struct {
	key    scopeKey
	slots  []*slot          // in the order in which they were taken
	byName map[string]*slot // only beyond fewSlots, where looking through the list would be slow
	// metrics and series count what holds a place: not what is leaving.
	metrics, series int
	// refused are metrics that found no place, so that each is told of once.
	refused map[string]struct{}
	wanted  bool // something was refused since idle slots were last looked for
}

// slot is one metric's.
type slot struct {
	name    string
	since   uint32 // tick of the first series
	series  int
	objects map[metric.Object]int // with their series
	// leaving says that the slot was taken away: its series are about to go, and count no more.
	leaving bool
}

// fewSlots is how many names are sought by looking at each.
const fewSlots = 16

// maxRefused bounds what is remembered of refused metrics.
const maxRefused = 64

func (s *scope) find(name string) *slot {
	if s.byName != nil {
		return s.byName[name]
	}
	for _, one := range s.slots {
		if one.name == name {
			return one
		}
	}
	return nil
}

// enter counts one more series, in a new slot where the metric has none. A restored slot may be older than those
// before it.
func (s *scope) enter(o *metric.Object, name string, born uint32) {
	one := s.find(name)
	if one == nil {
		one = &slot{name: strings.Clone(name), since: born, objects: map[metric.Object]int{}}
		s.add(one)
		s.metrics++
	}
	one.since = min(one.since, born)
	one.objects[*o]++
	one.series++
	if !one.leaving {
		s.series++
	}
}

func (s *scope) add(one *slot) {
	s.slots = append(s.slots, one)
	if len(s.slots) > fewSlots && s.byName == nil {
		s.byName = map[string]*slot{}
		for _, each := range s.slots {
			s.byName[each.name] = each
		}
	} else if s.byName != nil {
		s.byName[one.name] = one
	}
}

// leave counts one series less. The last one frees the slot.
func (s *scope) leave(o *metric.Object, name string) {
	one := s.find(name)
	if one == nil || one.objects[*o] == 0 {
		return
	}
	if one.objects[*o]--; one.objects[*o] == 0 {
		delete(one.objects, *o)
	}
	one.series--
	if !one.leaving {
		s.series--
	}
	if one.series > 0 {
		return
	}
	if !one.leaving {
		s.metrics--
	}
	s.slots = slices.DeleteFunc(s.slots, func(each *slot) bool { return each == one })
	delete(s.byName, name)
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
	for _, one := range s.slots {
		if !one.leaving && (found == nil || one.since >= found.since) && mayGo(one) {
			found = one
		}
	}
	return found
}

// holders are the names of the metrics that have a slot.
func (s *scope) holders() []string {
	var names []string
	for _, one := range s.slots {
		if !one.leaving {
			names = append(names, one.name)
		}
	}
	return names
}
