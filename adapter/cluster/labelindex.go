package cluster

import (
	"slices"
	"strings"
	"unique"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// labelIndex lists the pods of a namespace by each of their labels, so a selector need not look at
// all pods. Each pod keeps its positions in the lists (pod.labelPositions), so its removal needs no
// search. The lock of pods guards the index.
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

// remove moves the last pod of each list to the place of the removed one.
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
			p[l] = slices.Clone(list[:end]) // most pods of a long list are gone
		default:
			p[l] = list[:end]
		}
	}
}

// smallest returns lists that contain all pods which the selector may match, each pod once, and
// their number. It chooses the requirement with the fewest pods among those that name values.
// Without such a requirement n is unbounded.
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

// listsFor returns the lists of the values that a requirement names. A pod is in one of them at
// most.
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

// label is one label of an object. It is interned, because all pods of a workload share most
// labels.
type label struct{ key, value string }

// labelSet holds an object's labels, sorted by key. It is immutable.
type labelSet []unique.Handle[label]

func newLabelSet(from map[string]string) labelSet {
	if len(from) == 0 || len(from) > maxLabels {
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
	for _, handle := range s {
		if l := handle.Value(); l.key == key {
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

// controllerIndex lists the pods of a namespace by their controllers' UIDs. Each pod keeps its
// position in its list, so its removal needs no search. The lock of pods guards the index.
type controllerIndex map[uidKey][]*pod

// controlled reports whether a pod has a controller.
func (p *pod) controlled() bool { return p.controller != unique.Handle[metric.Workload]{} }

func (c controllerIndex) add(p *pod) {
	if !p.controlled() {
		return
	}
	key := newUIDKey(p.controller.Value().UID)
	list := c[key]
	p.controllerPosition = uint32(len(list))
	c[key] = append(list, p)
}

// remove moves the last pod of the list to the place of the removed one.
func (c controllerIndex) remove(p *pod) {
	if !p.controlled() {
		return
	}
	key := newUIDKey(p.controller.Value().UID)
	list := c[key]
	place, end := p.controllerPosition, len(list)-1
	last := list[end]
	list[place], last.controllerPosition = last, place
	if list[end] = nil; end == 0 {
		delete(c, key)
		return
	}
	c[key] = list[:end]
}
