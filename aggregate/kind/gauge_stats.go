package kind

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// gaugeStats computes mean, min and max of the sum of gauges over a window. It adds up the gauges'
// values at each moment first: the minimum of a sum is not the sum of the minima. Positions are in
// ticks. Each change counts from the middle of its tick, so the sum changes once per tick.
type gaugeStats struct {
	from, now float64
	// offset is the position of tick 0 of the table that is read.
	offset float64
	series int
	one    []change // changes of a single gauge
	grid   []step   // changes of the sum of several gauges, by tick from the window's first on
}

// change is the position of a change and the new value. The first change is the first value in the
// window.
type change struct{ at, to float64 }

// step is the change of the sum in a tick.
type step struct {
	by   compensated
	some bool // whether any gauge changed
}

// begin resets g for a window.
func (g *gaugeStats) begin(v *window.View, now window.Moment, tick time.Duration) {
	at := float64(now.At) / float64(tick)
	*g = gaugeStats{from: at - float64(v.Span.Window)/float64(tick), now: at, one: g.one[:0], grid: g.grid[:0]}
}

// add adds a gauge with its history entries and the tick of its birth. Gauges without entries are
// skipped.
func (g *gaugeStats) add(all []window.Entry, born uint32) {
	if len(all) == 0 {
		return
	}
	if g.series++; g.series == 2 {
		g.toGrid()
	}
	first := 0
	for first < len(all)-1 && g.middle(all[first+1].Tick) <= g.from {
		first++
	}
	at := g.middle(all[first].Tick)
	if first == 0 {
		at = g.middle(born) // setting a gauge to its current value creates no entry
	}
	level := math.Float64frombits(all[first].Value)
	g.change(at, 0, level)
	for _, entry := range all[first+1:] {
		to := math.Float64frombits(entry.Value)
		g.change(g.middle(entry.Tick), level, to)
		level = to
	}
}

// addLevels adds a gauge with its values, in order; positions count from now. Gauges without values are skipped.
func (g *gaugeStats) addLevels(all []level) {
	if len(all) == 0 {
		return
	}
	if g.series++; g.series == 2 {
		g.toGrid()
	}
	first := 0
	for first < len(all)-1 && all[first+1].at+g.now <= g.from {
		first++
	}
	before := 0.0
	for _, l := range all[first:] {
		g.change(l.at+g.now, before, l.value)
		before = l.value
	}
}

// middle returns the position of a tick of the table that is read.
func (g *gaugeStats) middle(tick uint32) float64 { return float64(tick) + 0.5 + g.offset }

// change records that a gauge changed from one value to another. What comes before the window is at its begin.
func (g *gaugeStats) change(at, from, to float64) {
	if at = min(max(at, g.from), g.now); g.series == 1 {
		g.one = append(g.one, change{at, to})
		return
	}
	step := &g.grid[g.tick(at)]
	step.by.add(to)
	step.by.add(-from)
	step.some = true
}

// tick returns the index in the grid of a position in the window.
func (g *gaugeStats) tick(at float64) int {
	return min(int(math.Floor(at)-math.Floor(g.from)), len(g.grid)-1)
}

// toGrid moves the changes of a single gauge to the grid.
func (g *gaugeStats) toGrid() {
	ticks := int(math.Floor(g.now)-math.Floor(g.from)) + 1
	g.grid = slices.Grow(g.grid, ticks)[:ticks]
	clear(g.grid)
	from := 0.0
	for _, c := range g.one {
		g.change(c.at, from, c.to)
		from = c.to
	}
}

// stat returns the time-weighted mean, the minimum or the maximum, or false if there is no gauge.
func (g *gaugeStats) stat(s metric.Stat) (v float64, ok bool) {
	if g.series == 0 {
		return 0, false
	}
	sum := levelSum{low: math.Inf(1), high: math.Inf(-1)}
	if g.series == 1 {
		for i, c := range g.one {
			until := g.now
			if i+1 < len(g.one) {
				until = g.one[i+1].at
			}
			sum.stood(c.to, until-c.at)
		}
		return sum.stat(s), true
	}
	var level compensated
	at, stands := g.from, false
	for i, step := range g.grid {
		if !step.some {
			continue
		}
		next := min(max(math.Floor(g.from)+float64(i)+0.5, g.from), g.now)
		if stands {
			sum.stood(finite(level.value()), next-at)
		}
		level.add(step.by.sum)
		level.add(step.by.lost)
		at, stands = next, true
	}
	sum.stood(finite(level.value()), g.now-at)
	return sum.stat(s), true
}

// levelSum accumulates values of the sum with their durations in ticks.
type levelSum struct{ low, high, weighted, ticks, last float64 }

// stood adds a value that lasted for some ticks.
func (s *levelSum) stood(level, ticks float64) {
	s.low, s.high, s.last = min(s.low, level), max(s.high, level), level
	s.weighted += level * ticks
	s.ticks += ticks
}

func (s *levelSum) stat(asked metric.Stat) float64 {
	switch {
	case asked == metric.Min:
		return s.low
	case asked == metric.Max:
		return s.high
	case s.ticks <= 0:
		return s.last
	}
	return s.weighted / s.ticks
}

// compensated is a float64 sum with a correction for rounding errors (Neumaier 1974).
type compensated struct{ sum, lost float64 }

func (c *compensated) add(v float64) {
	total := c.sum + v
	if math.Abs(c.sum) >= math.Abs(v) {
		c.lost += c.sum - total + v
	} else {
		c.lost += v - total + c.sum
	}
	c.sum = total
}

func (c *compensated) value() float64 { return c.sum + c.lost }

// GaugePart is the state of a gauge at one origin, as the merge with other origins needs it.
type GaugePart struct {
	Value   metric.Number
	Shifts  metric.Number // see order
	At      uint64        // milliseconds of the origin's lifetime clock
	Follows uint64
	// Ahead is added to At before it is compared with the At of other origins: the date of the origin's
	// zero, or its difference to another clock's zero. The caller sets it.
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

// known reports whether the part's value was assigned at its origin, or follows an assignment elsewhere.
func (p *GaugePart) known() bool { return p.At != 0 }

// assigned reports whether the part's value was assigned at its origin.
func (p *GaugePart) assigned() bool { return p.known() && p.Follows == 0 }

// MergeGauges returns the value of a gauge from its states at several origins: the newest assignment (at
// equal moments, that of the least rank), with the shifts of its own origin, and the shifts that followed
// it at the others. newest is the index of that assignment's part, or -1 without parts.
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
	n = first.Value
	for i := range parts {
		if p := &parts[i]; i != newest && p.follows(first) {
			n = shifted(n, p.Shifts)
		}
	}
	return n, newest
}

// follows reports whether a part's changes follow the assignment of the newest part.
func (p *GaugePart) follows(newest *GaugePart) bool {
	followed := newest.Follows
	if newest.assigned() {
		followed = newest.At
	}
	return !p.assigned() && p.Follows == followed
}

// newer reports whether a part's assignment replaces that of another part.
func (p *GaugePart) newer(than *GaugePart) bool {
	if p.assigned() != than.assigned() {
		return p.assigned()
	}
	if p.known() != than.known() {
		return p.known()
	}
	if at, other := p.life(), than.life(); at != other {
		return at > other
	}
	return p.Rank < than.Rank
}
