package aggregate

import (
	"runtime"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Objects answers for custom metrics: one value for each object, its label sets rolled up.
func (t *Table) Objects(q metric.Query) ([]metric.Point, error) {
	key := index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	who := t.index.ScopeOf(key, &q)
	points, err := roomFor(&q, who.Most)
	if err != nil {
		return nil, err
	}
	r, entries, err := t.plan(&q, key, who)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if q.Kind != nil {
		*q.Kind = r.Kind
	}
	points = slices.Grow(points, len(entries))
	matched := false
	for i, one := range entries {
		if i%index.EntriesPerHold == index.EntriesPerHold-1 {
			runtime.Gosched() // whoever asks for a crowd is not the only one who wants the processor
		}
		if i%perTouch == 0 {
			r.touch(entries[i:min(i+perTouch, len(entries))])
		}
		if !r.takes.has(one.Entry.Kind) {
			continue
		}
		r.Kind = one.Entry.Kind
		r.begin()
		for _, s := range one.Series {
			r.add(s)
		}
		matched = matched || r.Series > 0
		if p, ok := r.point(); ok {
			p.Object = one.Entry.Object()
			points = append(points, p)
		}
	}
	if err := r.QueryError(&q); err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, t.nothing(&q, r, matched)
	}
	return points, nil
}

// roomFor is room for so many points.
func roomFor(q *metric.Query, points int) ([]metric.Point, error) {
	if q.Reserve == nil {
		return nil, nil
	}
	room, err := q.Reserve(points)
	return room[:0], err
}

// External answers for external metrics: what may be added up has one value for each label set,
// what may not has one for all of them together, with the labels that they share. A namespace that
// has no metric of the name gets the cluster-wide one.
func (t *Table) External(q metric.Query) ([]metric.Point, error) {
	q.Resource, q.Object = "", ""
	key := index.Key{Resource: "", Namespace: q.Namespace, Name: q.Expression.Name}
	points, err := roomFor(&q, t.mostExternal(key, &q)) // may wait: what time it is, and what there is, is looked at afterwards
	if err != nil {
		return nil, err
	}
	r, entries, err := t.plan(&q, key, t.index.ScopeOf(key, &q))
	if err != nil {
		return nil, err
	}
	one := entries[0]
	points, matched := r.external(points, one)
	if err := r.QueryError(&q); err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, t.nothing(&q, r, matched)
	}
	for i := range points {
		points[i].Object = one.Entry.Object()
	}
	return points, nil
}

// mostExternal is how many points an external metric may have.
func (t *Table) mostExternal(key index.Key, q *metric.Query) int {
	most := t.index.ScopeOf(key, q).Most
	if most == 0 {
		most = t.index.ScopeOf(index.Key{Name: key.Name}, q).Most
	}
	return most
}

// Listed lists the distinct metrics that exist, in a stable order: at most limit external ones,
// then at most limit of objects.
func (t *Table) Listed(limit int) []metric.Discovered { return t.index.Listed(limit) }

// plan finds the entries of a query and settles its stat and window.
func (t *Table) plan(q *metric.Query, key index.Key, who index.Scope) (_ *evaluation, _ []index.Found, err error) {
	now := t.Clock.Now()
	room := index.BufferFor(who.Most)
	defer func() {
		if err != nil {
			room.Release()
		}
	}()
	entries := t.living(t.index.Find(key, q, who, room), now)
	if len(entries) == 0 && q.Resource == "" && q.Namespace != "" {
		key.Namespace = ""
		entries = t.living(t.index.Find(key, q, t.index.ScopeOf(key, q), room), now)
	}
	stat, width := q.Expression.Stat, q.Expression.Window
	if width != 0 && t.spanIndex(width) < 0 {
		return nil, nil, metric.InvalidQueryf("window %s of %q is not kept; the windows are %s",
			metric.FormatWindow(width), q.Expression.String(), windowNames(t.Windows()))
	}
	if len(entries) == 0 {
		return nil, nil, t.absent(q)
	}
	k, takes := t.chooseKinds(q, key, entries, now)
	if stat == metric.NoStat {
		stat = k.DefaultStat()
	}
	if !k.Has(stat) {
		return nil, nil, metric.InvalidQueryf("%q is a %s: it has %s, but no %s",
			q.Expression.Name, k, metric.StatNames(k.Stats()), stat)
	}
	if !stat.Windowed() && width != 0 {
		return nil, nil, metric.InvalidQueryf("%q: %s is the same in every window; ask for %q",
			q.Expression.String(), stat, metric.Expression{Name: q.Expression.Name, Stat: stat}.String())
	}
	if width == 0 {
		width = t.defaultWindow()
	}
	index := t.spanIndex(width)
	r := &evaluation{table: t, takes: takes, now: now, match: q.MatchLabels, room: room}
	r.Reader = kind.Reader{Env: &t.Env, Kind: k, Stat: stat, View: t.Spans[index].View(index, t.Clock.Tick, now),
		Meter: window.Meter{Logs: t.Logs, Clock: t.Clock, Now: now, Window: width, Shortest: t.Spans[0].Window}}
	return r, entries, nil
}

// living drops the first entries that hold nothing but what is dead or has outlived its time and
// waits for the sweep: so the first one left has a value.
func (t *Table) living(entries []index.Found, now window.Moment) []index.Found {
	for i, one := range entries {
		for _, r := range one.Series {
			if t.lives(r, now) {
				return entries[i:]
			}
		}
	}
	return nil
}

func (t *Table) lives(r lookup.Ref, now window.Moment) bool {
	b, place := t.blocks.of(r.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != r.State {
		return false
	}
	if !t.hasExpired(b, place, now) {
		return true
	}
	s := &b.series[place]
	t.removals.note(s.entry, t.removalOf(b, place, expired))
	return false
}

// spanIndex is the place of a window among the spans; -1: it is not kept.
func (t *Table) spanIndex(w time.Duration) int {
	for i := range t.Spans {
		if t.Spans[i].Window == w {
			return i
		}
	}
	return -1
}
