package limit

import "github.com/sluice-metrics/sluice/metric"

// slot belongs to one metric.
type slot struct {
	name string // the caller's string, which all pods of a namespace share
	// byObject counts the series of each object, if an object other than the quota's own has the
	// metric; nil: all series are the own object's.
	byObject map[metric.Object]uint32
	since    uint32 // tick of the first series
	series   uint32
	// evicted: the slot was taken away. Its series are about to be removed, and no longer count.
	evicted bool
	// idle: with several replicas, the metric yields to one that would be rejected otherwise.
	idle bool
}

// enter counts one more series of an object.
func (one *slot) enter(o *metric.Object, in quotaKey) {
	if own := in.own(); one.byObject == nil && *o != own {
		one.byObject = map[metric.Object]uint32{}
		if one.series > 0 {
			one.byObject[own] = one.series
		}
	}
	if one.byObject != nil {
		one.byObject[*o]++
	}
	one.series++
}

// leave counts one series of an object less, if it has one.
func (one *slot) leave(o *metric.Object, in quotaKey) bool {
	if one.byObject == nil {
		if *o != in.own() || one.series == 0 {
			return false
		}
		one.series--
		return true
	}
	if one.byObject[*o] == 0 {
		return false
	}
	if one.byObject[*o]--; one.byObject[*o] == 0 {
		delete(one.byObject, *o)
	}
	one.series--
	return true
}

// objects returns the objects that have the metric.
func (one *slot) objects(in quotaKey) []metric.Object {
	if one.byObject == nil {
		return []metric.Object{in.own()}
	}
	all := make([]metric.Object, 0, len(one.byObject))
	for o := range one.byObject {
		all = append(all, o)
	}
	return all
}
