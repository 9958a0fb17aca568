package cluster

import (
	"unique"

	"github.com/sluice-metrics/sluice/metric"
)

// controllerIndex lists the pods of a namespace by their controllers' UIDs. Each pod keeps its
// position in its list, so its removal needs no search. The lock of pods guards the index.
type controllerIndex map[uidKey][]*pod

// controlled reports whether a pod has a controller.
func (p *pod) controlled() bool { return p.controller != unique.Handle[metric.Workload]{} }

func (c controllerIndex) add(one *pod) {
	if !one.controlled() {
		return
	}
	key := newUIDKey(one.controller.Value().UID)
	list := c[key]
	one.controllerPosition = uint32(len(list))
	c[key] = append(list, one)
}

// remove moves the last pod of the list to the place of the removed one.
func (c controllerIndex) remove(one *pod) {
	if !one.controlled() {
		return
	}
	key := newUIDKey(one.controller.Value().UID)
	list := c[key]
	place, end := one.controllerPosition, len(list)-1
	last := list[end]
	list[place], last.controllerPosition = last, place
	if list[end] = nil; end == 0 {
		delete(c, key)
		return
	}
	c[key] = list[:end]
}
