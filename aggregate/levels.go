package aggregate

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// levels adds up gauges as they stood over a window: the minimum of a sum is not the sum of the minima. Positions are in
// ticks. A gauge that changed in a tick is taken to have changed in its middle.
type levels struct {
	from, now float64
	series    int
	changes   []change
}

// change is where a gauge changed, by how much, and to what. The first one of each gauge is its first level.
type change struct{ at, by, to float64 }

// begin empties it for a window.
func (l *levels) begin(v *view, now moment, tick time.Duration) {
	at := float64(now.at) / float64(tick)
	*l = levels{from: at - float64(v.span.window)/float64(tick), now: at, changes: l.changes[:0]}
}

// add adds one gauge that has notes and was born in a tick.
func (l *levels) add(all []note, born uint32) {
	if len(all) == 0 {
		return
	}
	first := 0
	for first < len(all)-1 && float64(all[first+1].tick)+0.5 <= l.from {
		first++
	}
	at := max(l.from, float64(all[first].tick)+0.5)
	if first == 0 {
		at = max(l.from, float64(born)+0.5) // a gauge that is set to what it was has no further note
	}
	level := math.Float64frombits(all[first].value)
	l.changes = append(l.changes, change{min(at, l.now), level, level})
	for _, one := range all[first+1:] {
		next := math.Float64frombits(one.value)
		l.changes = append(l.changes, change{min(float64(one.tick)+0.5, l.now), next - level, next})
		level = next
	}
	l.series++
}

// stat is the mean by time, the minimum or the maximum. False: there was no gauge.
func (l *levels) stat(s metric.Stat) (v float64, ok bool) {
	if l.series == 0 {
		return 0, false
	}
	if l.series > 1 {
		slices.SortStableFunc(l.changes, func(a, b change) int {
			switch {
			case a.at < b.at:
				return -1
			case a.at > b.at:
				return 1
			}
			return 0
		})
	}
	low, high := math.Inf(1), math.Inf(-1)
	var weighted, stood float64
	var sum compensated
	level := 0.0
	for i, one := range l.changes {
		sum.add(one.by)
		if level = finite(sum.value()); l.series == 1 {
			level = one.to // as it came, without a rounding
		}
		until := l.now
		if i+1 < len(l.changes) {
			until = l.changes[i+1].at
		}
		if until == one.at && i+1 < len(l.changes) {
			continue // of several changes at one moment the last one counts
		}
		low, high = min(low, level), max(high, level)
		weighted += level * (until - one.at)
		stood += until - one.at
	}
	switch {
	case s == metric.Min:
		return low, true
	case s == metric.Max:
		return high, true
	case stood == 0:
		return level, true
	}
	return weighted / stood, true
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
