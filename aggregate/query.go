package aggregate

import (
	"runtime"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Objects answers for custom metrics: one value for each object, its label sets rolled up.
func (t *Table) Objects(q metric.Query) ([]metric.Point, error) {
	key := familyKey{q.Resource, q.Namespace, q.Expression.Name}
	who := t.index.seek(key, &q)
	points, err := roomFor(&q, who.most)
	if err != nil {
		return nil, err
	}
	r, entries, err := t.plan(&q, key, who)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if q.Kind != nil {
		*q.Kind = r.kind
	}
	points = slices.Grow(points, len(entries))
	matched := false
	for i, one := range entries {
		if i%perHold == perHold-1 {
			runtime.Gosched() // whoever asks for a crowd is not the only one who wants the processor
		}
		if i%perTouch == 0 {
			r.touch(entries[i:min(i+perTouch, len(entries))])
		}
		if !r.takes.has(one.entry.kind) {
			continue
		}
		r.kind = one.entry.kind
		r.begin()
		for _, s := range one.series {
			r.add(s)
		}
		matched = matched || r.series > 0
		if p, ok := r.point(); ok {
			p.Object = one.entry.object()
			points = append(points, p)
		}
	}
	if err := r.refuse(&q); err != nil {
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

// External answers for external metrics: what may be added up has one value for each label set, what may not has
// one for all of them together, with the labels that they share. A namespace that has no metric of the name
// gets the cluster-wide one.
func (t *Table) External(q metric.Query) ([]metric.Point, error) {
	q.Resource, q.Object = "", ""
	key := familyKey{"", q.Namespace, q.Expression.Name}
	points, err := roomFor(&q, t.mostExternal(key, &q)) // may wait: what time it is, and what there is, is looked at afterwards
	if err != nil {
		return nil, err
	}
	r, entries, err := t.plan(&q, key, t.index.seek(key, &q))
	if err != nil {
		return nil, err
	}
	one := entries[0]
	points, matched := r.external(points, one)
	if err := r.refuse(&q); err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, t.nothing(&q, r, matched)
	}
	for i := range points {
		points[i].Object = one.entry.object()
	}
	return points, nil
}

// mostExternal is how many points an external metric may have.
func (t *Table) mostExternal(key familyKey, q *metric.Query) int {
	most := t.index.seek(key, q).most
	if most == 0 {
		most = t.index.seek(familyKey{name: key.name}, q).most
	}
	return most
}

// Listed lists the distinct metrics that exist, in a stable order: at most limit external ones, then at most limit of objects.
func (t *Table) Listed(limit int) []metric.Discovered { return t.index.listed(limit) }

// Delete removes the series that a query names, whatever its stat and window, and returns how many. It does not fall
// back: who deletes in a namespace does not mean everybody's.
func (t *Table) Delete(q metric.Query) int {
	var gone []ref
	key := familyKey{q.Resource, q.Namespace, q.Expression.Name}
	for _, one := range t.index.asked(key, &q, t.index.seek(key, &q), new(finding)) {
		for _, r := range one.series {
			b, place := t.blocks.of(r.number)
			b.history.Lock()
			if b.page.cells[place].state.Load() == r.state && (q.MatchLabels == nil || q.MatchLabels(b.series[place].labels())) {
				gone = append(gone, r)
			}
			b.history.Unlock()
		}
	}
	return t.evict(gone, deletion, t.clock.now())
}

// plan finds the entries of a query and settles its stat and window.
func (t *Table) plan(q *metric.Query, key familyKey, who sought) (_ *reading, _ []found, err error) {
	now := t.clock.now()
	room := findingFor(who.most)
	defer func() {
		if err != nil {
			room.release()
		}
	}()
	entries := t.living(t.index.asked(key, q, who, room), now)
	if len(entries) == 0 && q.Resource == "" && q.Namespace != "" {
		key.namespace = ""
		entries = t.living(t.index.asked(key, q, t.index.seek(key, q), room), now)
	}
	stat, window := q.Expression.Stat, q.Expression.Window
	if window != 0 && t.spanIndex(window) < 0 {
		return nil, nil, metric.InvalidQueryf("window %s of %q is not kept; the windows are %s",
			metric.FormatWindow(window), q.Expression.String(), windowNames(t.Windows()))
	}
	if len(entries) == 0 {
		return nil, nil, t.absent(q)
	}
	kind, takes := t.chooseKinds(q, key, entries, now)
	if stat == metric.NoStat {
		stat = kind.DefaultStat()
	}
	if !kind.Has(stat) {
		return nil, nil, metric.InvalidQueryf("%q is a %s: it has %s, but no %s",
			q.Expression.Name, kind, metric.StatNames(kind.Stats()), stat)
	}
	if !stat.Windowed() && window != 0 {
		return nil, nil, metric.InvalidQueryf("%q: %s is the same in every window; ask for %q",
			q.Expression.String(), stat, metric.Expression{Name: q.Expression.Name, Stat: stat}.String())
	}
	if window == 0 {
		window = t.defaultWindow()
	}
	index := t.spanIndex(window)
	r := &reading{table: t, kind: kind, takes: takes, stat: stat, now: now, match: q.MatchLabels, room: room,
		view: t.spans[index].view(index, t.clock.tick, now)}
	return r, entries, nil
}

// living drops the first entries that hold nothing but what is dead or has outlived its time and waits for the sweep: so
// the first one left has a value.
func (t *Table) living(entries []found, now moment) []found {
	for i, one := range entries {
		for _, r := range one.series {
			if t.lives(r, now) {
				return entries[i:]
			}
		}
	}
	return nil
}

func (t *Table) lives(r ref, now moment) bool {
	b, place := t.blocks.of(r.number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].state.Load() != r.state {
		return false
	}
	if !t.expired(b, place, now) {
		return true
	}
	s := &b.series[place]
	t.graves.bury(s.entry, t.epitaph(b, place, expiry))
	return false
}

// spanIndex is the place of a window among the spans; -1: it is not kept.
func (t *Table) spanIndex(w time.Duration) int {
	for i := range t.spans {
		if t.spans[i].window == w {
			return i
		}
	}
	return -1
}
