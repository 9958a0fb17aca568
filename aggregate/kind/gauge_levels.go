package kind

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// levels adds up gauges as they stood over a window: the minimum of a sum is not the sum of the
// minima. Positions are in ticks. A gauge that changed in a tick is taken to have changed in its
// middle, so a sum changes at one place in each tick.
type levels struct {
	from, now float64
	series    int
	one       []change // of a single gauge
	grid      []step   // of several, by tick from that of the window's beginning on
}

// change is where a gauge changed, and to what. The first one is its first level.
type change struct{ at, to float64 }

// step is by how much a sum changes in a tick.
type step struct {
	by   compensated
	some bool
}

// begin empties it for a window.
func (l *levels) begin(v *window.View, now window.Moment, tick time.Duration) {
	at := float64(now.At) / float64(tick)
	*l = levels{from: at - float64(v.Span.Window)/float64(tick), now: at, one: l.one[:0], grid: l.grid[:0]}
}

// add adds one gauge that has notes and was born in a tick.
func (l *levels) add(all []window.Entry, born uint32) {
	if len(all) == 0 {
		return
	}
	if l.series++; l.series == 2 {
		l.spread()
	}
	first := 0
	for first < len(all)-1 && float64(all[first+1].Tick)+0.5 <= l.from {
		first++
	}
	at := float64(all[first].Tick) + 0.5
	if first == 0 {
		at = float64(born) + 0.5 // a gauge that is set to what it was has no further note
	}
	level := math.Float64frombits(all[first].Value)
	l.change(max(l.from, at), 0, level)
	for _, one := range all[first+1:] {
		to := math.Float64frombits(one.Value)
		l.change(float64(one.Tick)+0.5, level, to)
		level = to
	}
}

// change enters where a gauge changed from one level to another.
func (l *levels) change(at, from, to float64) {
	if at = min(at, l.now); l.series == 1 {
		l.one = append(l.one, change{at, to})
		return
	}
	step := &l.grid[l.tick(at)]
	step.by.add(to)
	step.by.add(-from)
	step.some = true
}

// tick is the place in the grid of a position in the window.
func (l *levels) tick(at float64) int {
	return min(int(math.Floor(at)-math.Floor(l.from)), len(l.grid)-1)
}

// spread moves what a single gauge has to the grid.
func (l *levels) spread() {
	ticks := int(math.Floor(l.now)-math.Floor(l.from)) + 1
	l.grid = slices.Grow(l.grid, ticks)[:ticks]
	clear(l.grid)
	from := 0.0
	for _, one := range l.one {
		l.change(one.at, from, one.to)
		from = one.to
	}
}

// stat is the mean by time, the minimum or the maximum. False: there was no gauge.
func (l *levels) stat(s metric.Stat) (v float64, ok bool) {
	if l.series == 0 {
		return 0, false
	}
	sum := levelSum{low: math.Inf(1), high: math.Inf(-1)}
	if l.series == 1 {
		for i, one := range l.one {
			until := l.now
			if i+1 < len(l.one) {
				until = l.one[i+1].at
			}
			sum.stood(one.to, until-one.at)
		}
		return sum.stat(s), true
	}
	var level compensated
	at, stands := l.from, false
	for i, step := range l.grid {
		if !step.some {
			continue
		}
		next := min(max(math.Floor(l.from)+float64(i)+0.5, l.from), l.now)
		if stands {
			sum.stood(finite(level.value()), next-at)
		}
		level.add(step.by.sum)
		level.add(step.by.lost)
		at, stands = next, true
	}
	sum.stood(finite(level.value()), l.now-at)
	return sum.stat(s), true
}

// levelSum sums up levels with how long they stood.
type levelSum struct{ low, high, weighted, ticks, last float64 }

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

// compensated is a sum of float64 that keeps what rounding lost (Neumaier 1974).
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
