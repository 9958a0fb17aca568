package aggregate

import (
	"math"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// levels adds up gauges as they stood at each tick of a window, and as they stand: the minimum of a sum is not the
// sum of the minima.
type levels struct {
	view *view
	at   []level       // at the end of the unit before the view, of each unit in it, and now
	unit time.Duration // how long a level stood; the last but one until now
	rest time.Duration
}

type level struct {
	sum  float64
	some bool // a gauge existed by then
}

func newLevels(v *view, now moment, tick time.Duration) levels {
	l := levels{view: v, unit: time.Duration(v.span.stride) * tick}
	l.rest = now.at % l.unit
	l.at = make([]level, v.span.unit(now.tick)-v.first+2)
	return l
}

// addLocked adds one gauge, by its past and its value now.
func (l *levels) addLocked(rings *rings, p *past, now float64) {
	last := len(l.at) - 1
	l.at[last].add(now)
	for i := range last {
		if bits, ok := p.at(rings, *l.view, l.view.first-1+uint32(i)); ok {
			l.at[i].add(math.Float64frombits(bits))
		}
	}
}

func (l *level) add(v float64) { l.sum, l.some = finite(l.sum+v), true }

// stat is the mean by time, the minimum or the maximum. A level that was noted at a tick's end stood until the next.
func (l *levels) stat(s metric.Stat) (v float64, ok bool) {
	low, high := math.Inf(1), math.Inf(-1)
	var weighted, seconds float64
	for i, one := range l.at {
		if !one.some {
			continue
		}
		low, high, ok = min(low, one.sum), max(high, one.sum), true
		stood := l.unit
		switch i {
		case len(l.at) - 1:
			stood = 0
		case len(l.at) - 2:
			stood = l.rest
		}
		weighted += one.sum * stood.Seconds()
		seconds += stood.Seconds()
	}
	switch {
	case s == metric.Min:
		return low, ok
	case s == metric.Max:
		return high, ok
	case seconds == 0:
		return l.at[len(l.at)-1].sum, ok
	}
	return weighted / seconds, ok
}
