package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// markStale removes the series of a staleness marker. The first of the two steps (evict.go) waits
// for no writer, so a writer may take it between any two samples. Samples that other writers apply
// before the second step count as if they had come before the removal.
//
// A running total that comes later begins a new series. The growth in between is not counted,
// because the client may have been replaced.
func (w *Writer) markStale(s *metric.Sample) metric.Reason {
	decided := w.decision(s)
	if decided.refused != metric.Applied {
		return decided.refused
	}
	t := w.table
	to, _, there := t.locate(&decided.identity)
	if now := t.Clock.Now(); there {
		if t.outlives(to, s, now) {
			return metric.Applied
		}
		t.evict([]lookup.Ref{to}, markedStale, now)
	}
	if tell := t.staleElsewhere.Load(); tell != nil && t.isStaleElsewhere(&decided.identity, s) {
		(*tell)(decided.identity.Object, decided.identity.Name, metric.TrustPackedLabels(decided.identity.Labels))
	}
	return metric.Applied
}

// OnStaleElsewhere sets the function that is called for a staleness marker whose series another
// origin has: the client was another replica's before. Its arguments are borrowed.
func (t *Table) OnStaleElsewhere(tell func(o metric.Object, name string, labels metric.Labels)) {
	t.staleElsewhere.Store(&tell)
}

// isStaleElsewhere reports whether another origin has the series of a staleness marker, without a
// newer value.
func (t *Table) isStaleElsewhere(f *index.Identity, s *metric.Sample) bool {
	for from := range t.eachOther {
		form := *f
		form.Hash(&from.index.Hash)
		shard := from.canon.Shard(form.Sum)
		shard.Mu.Lock()
		to, _, there := from.locate(&form)
		shard.Mu.Unlock()
		if there && !from.outlives(to, s, from.Clock.Now()) {
			return true
		}
	}
	return false
}

// outlives reports whether a series has a value newer than a staleness marker.
func (t *Table) outlives(to lookup.Ref, s *metric.Sample, now window.Moment) bool {
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != to.State {
		return false // removed; its place may hold a series of another kind by now
	}
	if s.Dated != 0 && kind.DateOf(s, now) < kind.Of(b.page.kinds[place]).DateLocked(b.handle(place)) {
		return true
	}
	if s.Arrived == 0 {
		return false
	}
	held := now.TickOf(time.Unix(0, s.Arrived), t.Clock.Tick)
	return b.page.dirty.Has(place) || b.page.cells[place].History.Stamp > held
}
