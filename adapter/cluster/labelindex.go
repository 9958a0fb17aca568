package cluster

import (
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// postings are the pods of a namespace by each of their labels, so that a selector need not look at all pods. Each pod
// keeps where it stands (pod.posted), so that its end costs no search. The lock of pods guards them.
type labelIndex map[unique.Handle[label]][]*pod

func (p labelIndex) add(one *pod) {
	if len(one.labels) > 0 {
		one.labelPositions = make([]uint32, len(one.labels))
	}
	for i, l := range one.labels {
		list := p[l]
		one.labelPositions[i] = uint32(len(list))
		p[l] = append(list, one)
	}
}

// remove puts the last pod of each list in the place of the one that goes.
func (p labelIndex) remove(one *pod) {
	for i, l := range one.labels {
		list := p[l]
		place, end := one.labelPositions[i], len(list)-1
		last := list[end]
		list[place] = last
		last.labelPositions[slices.Index(last.labels, l)] = place
		list[end] = nil
		switch {
		case end == 0:
			delete(p, l)
		case end < cap(list)/4:
			p[l] = slices.Clone(list[:end]) // of a crowd that has gone
		default:
			p[l] = list[:end]
		}
	}
}

// fewest returns lists in which all pods stand that the selector may match, each once, and how many those are: of the
// requirements that name values, the lists of the one with the fewest pods. Without such a requirement all may match, and
// they are nowhere listed: there is no bound to how many.
func (p labelIndex) smallest(selector labels.Selector) (lists [][]*pod, n int) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, 0
	}
	n = noBound
	for i := range requirements {
		if some, m, ok := p.listsFor(&requirements[i]); ok && m < n {
			lists, n = some, m
		}
	}
	return lists, n
}

const noBound = int(^uint(0) >> 1)

// naming returns the lists of the values that a requirement names. A pod has one value of a key, so it stands in one of
// them at most.
func (p labelIndex) listsFor(r *labels.Requirement) (lists [][]*pod, n int, ok bool) {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
	default:
		return nil, 0, false
	}
	for value := range r.Values() {
		if list := p[unique.Make(label{r.Key(), value})]; len(list) > 0 {
			lists, n = append(lists, list), n+len(list)
		}
	}
	return lists, n, true
}

// label is one label of an object. Most are shared by all pods of a workload, so each is kept once.
type label struct{ key, value string }

// labelSet is an object's labels by key. It is never changed.
type labelSet []unique.Handle[label]

func newLabelSet(from map[string]string) labelSet {
	if len(from) == 0 {
		return nil
	}
	set := make(labelSet, 0, len(from))
	for key, value := range from {
		set = append(set, unique.Make(label{key, value}))
	}
	slices.SortFunc(set, func(a, b unique.Handle[label]) int { return strings.Compare(a.Value().key, b.Value().key) })
	return set
}

// Lookup implements labels.Labels.
func (s labelSet) Lookup(key string) (value string, exists bool) {
	for _, one := range s {
		if l := one.Value(); l.key == key {
			return l.value, true
		}
	}
	return "", false
}

// Has implements labels.Labels.
func (s labelSet) Has(key string) bool {
	_, exists := s.Lookup(key)
	return exists
}

// Get implements labels.Labels.
func (s labelSet) Get(key string) string {
	value, _ := s.Lookup(key)
	return value
}
