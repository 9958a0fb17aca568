package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

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
	if refused := w.updateNow(b, place, s); refused != metric.Applied {
		return refused
	}
	t.noteLocked(b, place, max(tick, stamp), now)
	return metric.Applied
}
