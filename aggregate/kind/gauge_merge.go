package kind

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// GaugePart is the state of a gauge at one origin, as the merge with other origins needs it.
type GaugePart struct {
	Value   metric.Number
	Shifts  metric.Number // see order
	At      uint64        // milliseconds of the origin's lifetime clock
	Follows uint64
	// Ahead is added to At to compare it with other origins': the date of the origin's zero, or its
	// difference to another clock's. The caller sets it.
	Ahead time.Duration
	Rank  int // of the origin's name among all; the caller sets it
}

// GaugePartLocked returns the state of a gauge, or false if it has no value yet.
func GaugePartLocked(h Series) (GaugePart, bool) {
	v, set := gaugeValue(h)
	if !set {
		return GaugePart{}, false
	}
	o := h.orderLocked()
	return GaugePart{Value: v, At: o.at, Follows: o.follows, Shifts: o.shifts}, true
}

// life returns the moment of the part's assignment, on the clock that all parts share.
func (p *GaugePart) life() time.Duration { return time.Duration(p.At)*time.Millisecond + p.Ahead }

// assigned reports whether the part's value was assigned at its origin.
func (p *GaugePart) assigned() bool { return p.At != 0 && p.Follows == 0 }

// MergeGauges returns the value of a gauge from its states at several origins: the newest
// assignment, of equals the one of the least rank, with the shifts of its own origin, and the
// shifts that followed it at the others. newest is the index of that assignment's part, or -1
// without parts.
//
// Without an assignment, the sum of all shifts is the value. If the assignment that shifts follow
// was lost with its origin, its value as known to the newest part stands for it.
func MergeGauges(parts []GaugePart) (n metric.Number, newest int) {
	newest = -1
	for i := range parts {
		if newest < 0 || parts[i].newer(&parts[newest]) {
			newest = i
		}
	}
	if newest < 0 {
		return metric.Number{}, newest
	}
	first := &parts[newest]
	n, followed := first.Value, first.Follows
	if first.assigned() {
		followed = first.At
	}
	for i := range parts {
		if p := &parts[i]; i != newest && !p.assigned() && p.Follows == followed {
			n = shifted(n, p.Shifts)
		}
	}
	return n, newest
}

// newer reports whether a part decides rather than an earlier one.
func (p *GaugePart) newer(than *GaugePart) bool {
	if p.assigned() != than.assigned() {
		return p.assigned()
	}
	if known, other := p.At != 0, than.At != 0; known != other {
		return known
	}
	if at, other := p.life(), than.life(); at != other {
		return at > other
	}
	return p.Rank < than.Rank
}
