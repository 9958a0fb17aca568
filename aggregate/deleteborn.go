package aggregate

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A replica may hear of a deletion late, and its client may have begun the series again. So only
// series that are older than the deletion are deleted.

// DeleteBorn is Delete for series that were born before a moment.
func (t *Table) DeleteBorn(q metric.Query, before time.Time) int {
	now := t.Clock.Now()
	old := slices.DeleteFunc(t.selected(&q), func(r lookup.Ref) bool { return !t.bornBefore(r, now, before, 0) })
	return t.evict(old, deleted, now)
}

// DeleteBorn is Delete for series that were born before a moment. Series of other origins are
// hidden until the origin has heard of the deletion.
func (m *Merged) DeleteBorn(q metric.Query, before time.Time) int {
	if m.alone() {
		return m.own.DeleteBorn(q, before)
	}
	return m.deleteBorn(&q, before, hiddenFor)
}

// DeleteNamespace removes the series of a namespace, external ones and those of its objects, that were born
// before a moment, and returns their number.
func (t *Table) DeleteNamespace(namespace string, before time.Time) (gone int) {
	for key := range t.familiesOf(namespace) {
		gone += t.DeleteBorn(everythingOf(key, namespace), before)
	}
	return gone
}

// DeleteNamespace is Table.DeleteNamespace for all origins. Series of other origins are hidden until their
// origins remove them, even if those are away for long.
func (m *Merged) DeleteNamespace(namespace string, before time.Time) (gone int) {
	if m.alone() {
		return m.own.DeleteNamespace(namespace, before)
	}
	all := m.own.familiesOf(namespace)
	for _, p := range *m.peers.Load() {
		maps.Copy(all, p.shadow.Table().familiesOf(namespace))
	}
	for key := range all {
		q := everythingOf(key, namespace)
		gone += m.deleteBorn(&q, before, hiddenForNamespaces)
	}
	return gone
}

// familiesOf finds the families of a namespace, and those of Namespace objects.
func (t *Table) familiesOf(namespace string) map[index.Key]struct{} {
	all := map[index.Key]struct{}{}
	t.index.EachFamily(func(f *index.Family) {
		if f.Key.Namespace == namespace || f.Key.Resource == "namespaces" {
			all[f.Key] = struct{}{}
		}
	})
	return all
}

// everythingOf selects what a family has of a namespace: all objects, whatever their UIDs.
func everythingOf(key index.Key, namespace string) metric.Query {
	q := metric.Query{Resource: key.Resource, Namespace: key.Namespace, Expression: metric.Expression{Name: key.Name},
		MatchObject: func(metric.Object) bool { return true }}
	switch key.Resource {
	case "":
	case "namespaces":
		q.Object = namespace
	default:
		q.Object = "*"
	}
	return q
}

// bornBefore selects the twins that were born before a moment; zero: all.
func (r *mergedRead) bornBefore(twins []twin, before time.Time) []twin {
	if before.IsZero() {
		return twins
	}
	return slices.DeleteFunc(twins, func(one twin) bool {
		s := &r.sources[one.source]
		doubt := time.Duration(0)
		if s.peer != nil { // shadows know the tick of a birth only, and the origin will decide
			doubt = s.table.Clock.Tick
		}
		return !s.table.bornBefore(one.Ref, s.now, before, doubt)
	})
}

// bornBefore reports whether a live series was born before a moment, by more than doubt. Doubt is time of the
// table's own clock: while no process ran, it stood.
func (t *Table) bornBefore(r lookup.Ref, now window.Moment, before time.Time, doubt time.Duration) bool {
	b, place := t.blocks.of(r.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != r.State {
		return false
	}
	s := &b.series[place]
	born := time.Duration(s.born)*t.Clock.Tick + time.Duration(s.bornMillis)*time.Millisecond
	return born+doubt < t.Clock.AtOf(now, before)
}
