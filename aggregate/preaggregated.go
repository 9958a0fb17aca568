package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// applyPreAggregated applies a running total or a histogram. Clients push these at intervals, not
// once per request, so they may take the history lock: the client's last total and the counted
// growth change together. A removed series gets no late total, which would count as growth. A new
// series begins with that total instead.
func (w *Writer) applyPreAggregated(to lookup.Ref, s *metric.Sample) metric.Reason {
	for {
		refused, there := w.tryPreAggregated(to, s)
		if there {
			return refused
		}
		if to, refused = w.seek(s); refused != metric.Applied {
			return refused
		}
	}
}

// tryPreAggregated applies the sample and records it at once. It returns false if the series was
// removed.
func (w *Writer) tryPreAggregated(to lookup.Ref, s *metric.Sample) (refused metric.Reason, there bool) {
	t := w.table
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != to.State {
		return metric.Applied, false
	}
	if t.Replicated && s.Op == metric.Accumulate {
		t.continueLocked(b, place)
	}
	now := t.Clock.Now()
	tick := t.arrivalLocked(b, place, s, now)
	if today := b.tickLocked(place, now); tick < today && b.page.cells[place].History.Stamp != 0 {
		t.noteLocked(b, place, today, now) // earlier samples count in their own tick
	}
	stamp := b.page.cells[place].History.Stamp
	refused = kind.Of(s.Kind).ApplyPreAggregatedLocked(&w.Applier, b.handle(place), tick, s)
	if refused != metric.Applied {
		return refused, true
	}
	t.bornLocked(b, place, tick, now)
	if s.TTL != 0 {
		b.page.setTTL(place, s.TTL)
		b.page.expectEnd(place, now)
	}
	t.noteLocked(b, place, max(tick, stamp), now)
	return metric.Applied, true
}

// arrivalLocked returns the tick in which a sample counts. Pending and late samples count in an
// earlier tick, and may move the birth of a new series back to it.
func (t *Table) arrivalLocked(b *block, place uint32, s *metric.Sample, now window.Moment) uint32 {
	then := time.Unix(0, s.Arrived)
	switch {
	case s.Late:
		then = s.Date()
	case s.Arrived == 0:
		return b.tickLocked(place, now)
	}
	tick := now.TickOf(then, t.Clock.Tick)
	if b.page.cells[place].History.Stamp == 0 {
		b.backdateLocked(place, tick, dateOf(now, tick, t.Clock.Tick))
	}
	return tick
}

// noteLocked records a series' value under a tick. It clears the dirty bit first, as the roller
// does.
func (t *Table) noteLocked(b *block, place, tick uint32, now window.Moment) {
	b.page.dirty[place/64].And(^(uint64(1) << (place % 64)))
	b.recorded[place/64].Add(1)
	t.rollSeriesLocked(b, place, tick)
	b.page.cells[place].See(now)
	b.unsaved.Mark(place)
}
