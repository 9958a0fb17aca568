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
type gaugeStats struct {
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
func (g *gaugeStats) begin(v *window.View, now window.Moment, tick time.Duration) {
	at := float64(now.At) / float64(tick)
	*g = gaugeStats{from: at - float64(v.Span.Window)/float64(tick), now: at, one: g.one[:0], grid: g.grid[:0]}
}

// add adds one gauge that has notes and was born in a tick.
func (g *gaugeStats) add(all []window.Entry, born uint32) {
	if len(all) == 0 {
		return
	}
	if g.series++; g.series == 2 {
		g.toGrid()
	}
	first := 0
	for first < len(all)-1 && float64(all[first+1].Tick)+0.5 <= g.from {
		first++
	}
	at := float64(all[first].Tick) + 0.5
	if first == 0 {
		at = float64(born) + 0.5 // a gauge that is set to what it was has no further note
	}
	level := math.Float64frombits(all[first].Value)
	g.change(max(g.from, at), 0, level)
	for _, one := range all[first+1:] {
		to := math.Float64frombits(one.Value)
		g.change(float64(one.Tick)+0.5, level, to)
		level = to
	}
}

// change enters where a gauge changed from one level to another.
func (g *gaugeStats) change(at, from, to float64) {
	if at = min(at, g.now); g.series == 1 {
		g.one = append(g.one, change{at, to})
		return
	}
	step := &g.grid[g.tick(at)]
	step.by.add(to)
	step.by.add(-from)
	step.some = true
}

// tick is the place in the grid of a position in the window.
func (g *gaugeStats) tick(at float64) int {
	return min(int(math.Floor(at)-math.Floor(g.from)), len(g.grid)-1)
}

// spread moves what a single gauge has to the grid.
func (g *gaugeStats) toGrid() {
	ticks := int(math.Floor(g.now)-math.Floor(g.from)) + 1
	g.grid = slices.Grow(g.grid, ticks)[:ticks]
	clear(g.grid)
	from := 0.0
	for _, one := range g.one {
		g.change(one.at, from, one.to)
		from = one.to
	}
}

// stat is the mean by time, the minimum or the maximum. False: there was no gauge.
func (g *gaugeStats) stat(s metric.Stat) (v float64, ok bool) {
	if g.series == 0 {
		return 0, false
	}
	sum := levelSum{low: math.Inf(1), high: math.Inf(-1)}
	if g.series == 1 {
		for i, one := range g.one {
			until := g.now
			if i+1 < len(g.one) {
				until = g.one[i+1].at
			}
			sum.stood(one.to, until-one.at)
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
