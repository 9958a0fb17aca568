package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A sample that its client dates into the past counts in the tick of that moment, whatever was noted since. It takes the
// history lock, as pushes do: clients date what they could not send before, not every request.

// datedAfter is how long ago a sample must say it was to count then. Timestamps are whole seconds, and a tick is about one.
const datedAfter = 2 * time.Second

// dated reports whether a sample counts at an earlier moment than now. Gauges do not: they are ordered by their timestamps.
func (w *Writer) dated(s *metric.Sample) bool {
	return s.Timestamp != 0 && s.Kind != metric.Gauge && w.Now.Wall.Sub(time.Unix(s.Timestamp, 0)) >= datedAfter
}

// updateDated adds a dated sample to its series, which may be about to go: then it comes late as any other.
func (w *Writer) updateDated(b *block, place uint32, state uint32, s *metric.Sample) metric.Reason {
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != state {
		return w.updateNow(b, place, s)
	}
	t, now := w.table, w.table.Clock.Now()
	tick := now.TickOf(time.Unix(s.Timestamp, 0), t.Clock.Tick)
	if b.page.cells[place].History.Stamp != 0 {
		t.noteLocked(b, place, b.tickLocked(place, now), now) // what came until now, under its own tick
	}
	refused := kind.Of(s.Kind).ApplyDatedLocked(&w.Applier, b.handle(place), tick, s)
	if refused == metric.Applied {
		b.bornLocked(t.Logs, place, tick, now)
		b.page.cells[place].See(now)
		if s.TTL != 0 {
			b.page.setTTL(place, s.TTL)
			b.page.expectEnd(place, now)
		}
		b.unsaved.Mark(place)
	}
	return refused
}

// bornLocked moves the birth of a series back to a sample that its client dates before it, as far as windows reach.
func (b *block) bornLocked(n *window.Logs, place, tick uint32, now window.Moment) {
	s := &b.series[place]
	s.born = min(s.born, max(tick, now.Tick-min(now.Tick, n.Horizon)))
}
