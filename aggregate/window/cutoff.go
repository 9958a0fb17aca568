package window

import (
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// An origin that is cut off goes on receiving, unheard. So it counts as much in a window as in the one that
// ended when it was heard last. The others are known up to now. If they received more than before, clients
// may have moved to them, because a process that hangs looks cut off: that surplus is subtracted, for as
// long as the history tells what they received before.

// hasCutOff reports whether some origin is cut off.
func (j *Joined) hasCutOff() bool {
	return slices.ContainsFunc(j.origins, func(c *Course) bool { return c.CutOff })
}

// increaseWithCutOff is Increase if some origins are cut off.
func (j *Joined) increaseWithCutOff(m *Meter, whole bool) (metric.Number, Stretch) {
	then, stretch := j.part(func(c *Course) bool { return c.CutOff }).Increase(m, whole)
	rest := j.part(func(c *Course) bool { return !c.CutOff })
	count, s := rest.Increase(m, whole)
	n := then.Float64()
	if stretch.Seconds > 0 {
		n *= s.Seconds / stretch.Seconds // the number may have been young when the origin was heard last
	}
	if n -= max(min(rest.moved(m, j.cutAt()), n), 0); n == then.Float64() {
		return count.Plus(then), s
	}
	if whole {
		return count.Plus(metric.Int(int64(math.Round(n)))), s
	}
	return count.Plus(metric.Computed(n)), s
}

// cutAt is the position from which on an origin is cut off.
func (j *Joined) cutAt() (at float64) {
	for _, c := range j.origins {
		if c.CutOff {
			at = min(at, c.Known)
		}
	}
	return at
}

// leastBefore is the number of ticks that tell what was received before.
const leastBefore = TicksPerWindow

// moved is the surplus in the meter's window, from a position on, over the rate before that position. One
// push more is chance.
func (j *Joined) moved(m *Meter, since float64) float64 {
	before := float64(m.Logs.Horizon-1) + since
	if before < leastBefore {
		return 0
	}
	from := max(since, -float64(m.Window)/float64(m.Clock.Tick))
	more := j.grown(from, 0) + j.grown(since-before, since)/before*from
	push := 0.0
	for i := range j.changes {
		if c := &j.changes[i]; c.to <= since {
			push = max(push, c.by.Float64())
		}
	}
	return max(more-push, 0)
}

// grown is between as one number.
func (j *Joined) grown(from, to float64) float64 {
	n, part := j.between(from, to)
	return n.Float64() + part
}

// part are the changes at some of the origins. Those at each origin that is cut off are moved on until now.
func (j *Joined) part(of func(*Course) bool) *Joined {
	p := &Joined{born: j.born, begun: j.begun, fractions: j.fractions}
	at := make([]int, len(j.origins)) // in p, plus 1
	moved := 0.0
	for i, c := range j.origins {
		if !of(c) {
			continue
		}
		if c.CutOff {
			moved = max(moved, -c.Known)
			c = c.movedOn()
		}
		p.origins = append(p.origins, c)
		at[i] = len(p.origins)
	}
	p.born, p.begun = min(p.born+moved, 0), min(p.begun+moved, 0)
	for _, c := range j.changes {
		if at[c.origin] == 0 {
			continue
		}
		by := p.origins[at[c.origin]-1].Known - j.origins[c.origin].Known
		c.from, c.to, c.origin = c.from+by, c.to+by, at[c.origin]-1
		p.changes = append(p.changes, c)
	}
	return p
}

// movedOn is a course as of the moment up to which all is known.
func (c *Course) movedOn() *Course {
	moved := *c
	moved.spans = make([]courseSpan, len(c.spans))
	for i, s := range c.spans {
		moved.spans[i] = courseSpan{s.from, s.shift - c.Known}
	}
	moved.Known, moved.CutOff = 0, false
	return &moved
}
