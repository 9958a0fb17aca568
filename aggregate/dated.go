package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A sample with a timestamp in the past counts in the tick of that moment, even if later ticks are
// recorded already. It takes the history lock, like running totals: clients date only the samples
// that they could not send earlier.

// datedAfter is the age from which a date counts. StatsD's are whole seconds, and a tick is about
// one.
const datedAfter = 2 * time.Second

// dated reports whether a sample counts in the past. Gauges never do: timestamps order them.
func (w *Writer) dated(s *metric.Sample) bool {
	return s.Dated != 0 && s.Kind != metric.Gauge && w.Now.Wall.Sub(s.Date()) >= datedAfter
}

// updateDated adds a dated sample to its series. If the series was removed, the sample is late.
func (w *Writer) updateDated(b *block, place uint32, state uint32, s *metric.Sample) metric.Reason {
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != state {
		return w.updateNow(b, place, s)
	}
	t, now := w.table, w.table.Clock.Now()
	tick := now.TickOf(s.Date(), t.Clock.Tick)
	if b.page.cells[place].History.Stamp != 0 {
		t.noteLocked(b, place, b.tickLocked(place, now), now) // earlier samples count in their own tick
	}
	rejected := kind.Of(s.Kind).ApplyDatedLocked(&w.Applier, b.handle(place), tick, s)
	if rejected == metric.Applied {
		t.bornLocked(b, place, tick, now)
		b.page.cells[place].See(now)
		if s.TTL != 0 {
			b.page.setTTL(place, s.TTL)
			b.page.expectEnd(place, now)
		}
		b.unsaved.Mark(place)
	}
	return rejected
}

// bornLocked moves the birth of a series back to a dated sample, but no further than windows reach.
func (t *Table) bornLocked(b *block, place, tick uint32, now window.Moment) {
	tick = max(tick, now.Tick-min(now.Tick, t.Logs.Horizon))
	b.backdateLocked(place, tick, dateOf(now, tick, t.Clock.Tick))
}

// dateOf is the date of an earlier tick of this process, in Unix seconds.
func dateOf(now window.Moment, tick uint32, length time.Duration) uint32 {
	return uint32(now.Wall.Add(time.Duration(tick)*length - now.At).Unix())
}

// backdateLocked moves the birth of a series back to a tick. An earlier birth is saved again: the
// limits of all replicas compare births, so each of them has to know the same one.
func (b *block) backdateLocked(place, tick, date uint32) {
	if tick >= b.series[place].born {
		return
	}
	b.series[place].born = tick
	b.page.created[place] = min(b.page.created[place], date)
	b.unnamed.Mark(place)
	b.renamed.Store(true)
}

// applyHeld applies a sample that was pending. It counts in the tick of its arrival, or in the
// earliest tick that is still open, so windows read as if it had never been pending. An older value
// of a gauge never replaces a newer one.
func (w *Writer) applyHeld(to lookup.Ref, s *metric.Sample) metric.Reason {
	t := w.table
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	c := &b.page.cells[place]
	if c.State.Load() != to.State {
		return w.updateNow(b, place, s) // the series was removed: reclaim handles late samples
	}
	now := t.Clock.Now()
	tick, stamp := t.arrivalLocked(b, place, s, now), c.History.Stamp
	if s.Op == metric.Assign && (stamp > tick || b.page.dirty.Has(place)) {
		return kind.Check(s)
	}
	if rejected := w.updateNow(b, place, s); rejected != metric.Applied {
		return rejected
	}
	t.noteLocked(b, place, max(tick, stamp), now)
	return metric.Applied
}
