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
type labelIndex map[string]*labelledPods

// labelledPods is behind a pointer because an assignment to a map would replace the key, by a part of another pod's labels,
// which then stay as long as the key.
type labelledPods struct{ list []labelledPod }

// labelledPod is a pod that has the label of a list, and the label's number in the pod's labels.
type labelledPod struct {
	*pod
	number uint32
}

// add lists a pod. Without room for its labels the pod has none.
func (p labelIndex) add(one *pod, room labelRoom) {
	if !room.Take(one.Namespace, p.size(one.labels)) {
		one.labels = labelSet{}
	}
	if n := one.labels.count(); n > 0 {
		one.labelPositions = make([]uint32, n)
	}
	for i, l := range one.labels.all() {
		pods := p[l]
		if pods == nil {
			pods = new(labelledPods)
			p[strings.Clone(l)] = pods
		}
		one.labelPositions[i] = uint32(len(pods.list))
		pods.list = append(pods.list, labelledPod{one, uint32(i)})
	}
}

// remove moves the last pod of each list to the place of the removed one.
func (p labelIndex) remove(one *pod, room labelRoom) {
	for i, l := range one.labels.all() {
		pods := p[l]
		list := pods.list
		place, end := one.labelPositions[i], len(list)-1
		last := list[end]
		list[place], last.labelPositions[last.number] = last, place
		list[end] = labelledPod{}
		switch {
		case end == 0:
			delete(p, l)
		case end < cap(list)/4:
			pods.list = slices.Clone(list[:end]) // most pods of a long list are gone
		default:
			pods.list = list[:end]
		}
	}
	room.Give(one.Namespace, p.size(one.labels))
}

// size is the memory that a pod's labels take more, beside their text, if it is listed.
func (p labelIndex) size(of labelSet) (n int64) {
	for _, l := range of.all() {
		n += indexedLabelBytes
		if p[l] == nil {
			n += newLabelBytes + int64(len(l))
		}
	}
	return n
}

// smallest returns lists that contain all pods which the selector may match, each pod once, and
// their number. It chooses the requirement with the fewest pods among those that name values.
// Without such a requirement n is unbounded.
func (p labelIndex) smallest(selector labels.Selector) (lists [][]labelledPod, n int) {
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
func (p labelIndex) listsFor(r *labels.Requirement) (lists [][]labelledPod, n int, ok bool) {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
	default:
		return nil, 0, false
	}
	for value := range r.Values() {
		if pods := p[label(r.Key(), value)]; pods != nil {
			lists, n = append(lists, pods.list), n+len(pods.list)
		}
	}
	return lists, n, true
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
