package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// markStale takes out the series of a sample that says that there is no value any more. It goes as a deleted one does, in two
// steps (evict.go): the first, done here, waits for no writer, so a writer may take it between any two samples; what
// other writers add before the second counts as before the end.
//
// A running total begins anew after it, as that of any new series: what it grew by in between is not known to have been
// counted by the same client, and is not counted. (Kept over the gap, the total of a client that was replaced meanwhile, and
// has outgrown the one before it, would count for the difference of two strangers.)
func (w *Writer) markStale(s *metric.Sample) metric.Reason {
	whose := w.decision(s)
	if whose.refused != metric.Applied {
		return whose.refused
	}
	t := w.table
	to, _, there := t.locate(&whose.identity)
	if now := t.Clock.Now(); there && !t.outlives(to, s, now) {
		t.evict([]lookup.Ref{to}, markedStale, now)
	}
	return metric.Applied
}

// outlives reports whether a series has a value that is newer than the end that a sample tells of.
func (t *Table) outlives(to lookup.Ref, s *metric.Sample, now window.Moment) bool {
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != to.State {
		return false // and its place may have another kind by now
	}
	if s.Timestamp != 0 && min(s.Timestamp, now.Wall.Unix()) < kind.Of(b.page.kinds[place]).TimestampLocked(b.handle(place)) {
		return true
	}
	if s.Arrived == 0 {
		return false
	}
	held := now.TickOf(time.Unix(0, s.Arrived), t.Clock.Tick)
	return b.page.dirty.Has(place) || b.page.cells[place].History.Stamp > held
}
