package limit

import "github.com/sluice-metrics/sluice/metric"

// slot is one metric's.
type slot struct {
	name string // the caller's, which all pods of a namespace share
	// others are the objects with their series, where another than the scope's own has the metric; nil: all are its own.
	others map[metric.Object]uint32
	since  uint32 // tick of the first series
	series uint32
	// leaving says that the slot was taken away: its series are about to go, and count no more.
	leaving bool
}

// enter counts one more series of an object.
func (one *slot) enter(o *metric.Object, in scopeKey) {
	if own := in.own(); one.others == nil && *o != own {
		one.others = map[metric.Object]uint32{}
		if one.series > 0 {
			one.others[own] = one.series
		}
	}
	if one.others != nil {
		one.others[*o]++
	}
	one.series++
}

// leave counts one series of an object less, if it has one.
func (one *slot) leave(o *metric.Object, in scopeKey) bool {
	if one.others == nil {
		if *o != in.own() || one.series == 0 {
			return false
		}
		one.series--
		return true
	}
	if one.others[*o] == 0 {
		return false
	}
	if one.others[*o]--; one.others[*o] == 0 {
		delete(one.others, *o)
	}
	one.series--
	return true
}

// objects are those that have the metric.
func (one *slot) objects(in scopeKey) []metric.Object {
	if one.others == nil {
		return []metric.Object{in.own()}
	}
	all := make([]metric.Object, 0, len(one.others))
	for o := range one.others {
		all = append(all, o)
	}
	return all
}
