package kind

import (
	"math"
	"sync/atomic"
)

// timer is the body of a timer. Writers add to the hot half of its live part, with atomics only.
// The holder of the history lock collects the observations: it makes the other half hot, waits
// until no writer is in the cold one, and empties that; then the same in reverse. So bins, sum and
// extremes are of the same observations, and each is collected once. (The halves are those of
// client_golang's histogram. A single half, read bin by bin while writers went on, was off by a
// hundred observations in half a million.)
type timer struct {
	tree atomic.Pointer[timerTree] // nil: all had a place in the live part

	// units holds, per span, what came in each unit; nil: nothing. folded is the unit of the
	// shortest span up to which the others have what came. Guarded by the history lock.
	units  []timerSlots
	folded uint32
	// pushed is what came in histograms; nil: none did. Guarded by the history lock.
	pushed *pushed
}

// observe counts a value with a weight in the hot half. It returns false if there is no memory.
func (t *timer) observe(live *TimerLive, hot uint32, v, weight float64, room Budget) bool {
	bin := BinOf(v)
	if !t.count(live, hot, bin, uint64(math.RoundToEven(weight*WeightUnits)), room) {
		return false
	}
	live.Line(hot, bin).enter(v*weight, v, v)
	return true
}

// count adds to a bin of a half. It returns false if there is no memory.
func (t *timer) count(live *TimerLive, hot uint32, bin int, units uint64, room Budget) bool {
	if n := units / WeightUnits; n <= mostIn && units%WeightUnits == 0 && live.count(hot, bin, uint32(n)) != nil {
		return true
	}
	leaf := t.leaf(bin, room)
	if leaf == nil {
		return false
	}
	leaf[hot][bin%leafBins].Add(units)
	return true
}

// takeOverLocked observes the late observations of a removed timer.
func (t *timer) takeOverLocked(lives *timerLives, c *Cell, from *timer, of *Cell, room Budget) {
	if lives.Of(of) == nil {
		return
	}
	live := lives.make(c, room)
	if live == nil {
		return
	}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	from.takeLocked(lives, of, d)
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			t.count(live, 0, bin, w, room)
		}
	}
	live[0].enter(d.Sum, d.min, d.max)
}

// takeLocked moves the observations since the previous call into d.
func (t *timer) takeLocked(lives *timerLives, c *Cell, d *distribution) {
	live := lives.Of(c)
	if live == nil {
		return
	}
	for range 2 {
		cold := lives.turn(c)
		if tree := t.tree.Load(); tree != nil {
			tree.take(cold, d)
		}
		live.take(cold, d)
	}
}
