package aggregate

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A replica may hear of a deletion late, and its client may have begun the series again. So only
// series that are older than the deletion are deleted.

// DeleteBorn is Delete for series that were born before a moment.
func (t *Table) DeleteBorn(q metric.Query, before time.Time) int {
	now := t.Clock.Now()
	old := slices.DeleteFunc(t.selected(&q), func(r lookup.Ref) bool { return !t.bornBefore(r, now, before) })
	return t.evict(old, deleted, now)
}

// DeleteBorn is Delete for series that were born before a moment. Series of other origins are
// hidden until the origin has heard of the deletion.
func (m *Merged) DeleteBorn(q metric.Query, before time.Time) int {
	if m.alone() {
		return m.own.DeleteBorn(q, before)
	}
	return m.deleteBorn(&q, before)
}

// bornBefore selects the twins that were born before a moment; zero: all.
func (r *mergedRead) bornBefore(twins []twin, before time.Time) []twin {
	if before.IsZero() {
		return twins
	}
	return slices.DeleteFunc(twins, func(one twin) bool {
		s := &r.sources[one.source]
		limit := before
		if s.peer != nil { // shadows know the tick of a birth only, and the origin will decide
			limit = before.Add(-s.table.Clock.Tick)
		}
		return !s.table.bornBefore(one.Ref, s.now, limit)
	})
}

// bornBefore reports whether a live series was born before a moment.
func (t *Table) bornBefore(r lookup.Ref, now window.Moment, before time.Time) bool {
	b, place := t.blocks.of(r.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != r.State {
		return false
	}
	s := &b.series[place]
	born := time.Duration(s.born)*t.Clock.Tick + time.Duration(s.bornMillis)*time.Millisecond
	return born < t.Clock.AtOf(now, before)
}
