package aggregate

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Objects answers a query for a custom metric: one value for each object, rolled up over the
// object's label sets.
func (t *Table) Objects(q metric.Query) ([]metric.Point, error) {
	key := index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	scope := t.index.ScopeOf(key, &q)
	points, err := pointBuffer(&q, scope.MaxEntries)
	if err != nil {
		return nil, err
	}
	r, entries, err := t.plan(&q, key, scope)
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
			runtime.Gosched() // lets other goroutines run during a large answer
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
		return nil, nothing([]*Table{t}, &q, r, matched)
	}
	return points, nil
}

// pointBuffer returns the query's buffer for up to so many points; nil if the query reserves none.
func pointBuffer(q *metric.Query, points int) ([]metric.Point, error) {
	if q.Reserve == nil {
		return nil, nil
	}
	buffer, err := q.Reserve(points)
	return buffer[:0], err
}

// External answers a query for an external metric. An additive stat has one value for each label
// set. Any other stat has one value for all label sets together, with the labels that they share.
// If the namespace has no metric of the name, the cluster-wide metric answers.
func (t *Table) External(q metric.Query) ([]metric.Point, error) {
	q.Resource, q.Object = "", ""
	key := index.Key{Resource: "", Namespace: q.Namespace, Name: q.Expression.Name}
	// Reserve may wait. Time and entries are read afterwards, so the answer is not outdated.
	points, err := pointBuffer(&q, t.mostExternal(key, &q))
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
		return nil, nothing([]*Table{t}, &q, r, matched)
	}
	for i := range points {
		points[i].Object = one.Entry.Object()
	}
	return points, nil
}

// mostExternal is an upper bound of the points of an external metric.
func (t *Table) mostExternal(key index.Key, q *metric.Query) int {
	most := t.index.ScopeOf(key, q).MaxEntries
	if most == 0 {
		most = t.index.ScopeOf(index.Key{Name: key.Name}, q).MaxEntries
	}
	return most
}

// Listed returns the distinct metrics, in a stable order: at most limit external metrics, then at
// most limit metrics of objects.
func (t *Table) Listed(limit int) []metric.Discovered { return t.index.Listed(limit) }

// plan finds the entries of a query, and determines the kinds, the stat and the window to read.
func (t *Table) plan(q *metric.Query, key index.Key, scope index.Scope) (_ *evaluation, _ []index.Found, err error) {
	now := t.Clock.Now()
	buffer := index.BufferFor(scope.MaxEntries)
	defer func() {
		if err != nil {
			buffer.Release()
		}
	}()
	entries := t.living(t.index.Find(key, q, scope, buffer), now)
	if len(entries) == 0 && q.Resource == "" && q.Namespace != "" {
		key.Namespace = ""
		entries = t.living(t.index.Find(key, q, t.index.ScopeOf(key, q), buffer), now)
	}
	if err := t.checkWindow(q); err != nil {
		return nil, nil, err
	}
	if len(entries) == 0 {
		return nil, nil, t.absent(q)
	}
	k, takes := t.chooseKinds(q, key, entries, now)
	r, err := t.evaluationOf(q, k, now)
	if err != nil {
		return nil, nil, err
	}
	r.takes, r.buffer = takes, buffer
	return r, entries, nil
}

// checkWindow rejects a query of a window that the table does not keep.
func (t *Table) checkWindow(q *metric.Query) error {
	width := q.Expression.Window
	if width == 0 || t.spanIndex(width) >= 0 {
		return nil
	}
	return metric.InvalidQueryf("window %s of %q is not kept; the windows are %s",
		metric.FormatWindow(width), q.Expression.String(), windowNames(t.Windows()))
}

// evaluationOf determines the stat and the window to read of a kind.
func (t *Table) evaluationOf(q *metric.Query, k metric.Kind, now window.Moment) (*evaluation, error) {
	stat, width := q.Expression.Stat, q.Expression.Window
	if stat == metric.NoStat {
		stat = k.DefaultStat()
	}
	if !k.Has(stat) {
		return nil, metric.InvalidQueryf("%q is a %s: it has %s, but no %s",
			q.Expression.Name, k, metric.StatNames(k.Stats()), stat)
	}
	if !stat.Windowed() && width != 0 {
		return nil, metric.InvalidQueryf("%q: %s is the same in every window; ask for %q",
			q.Expression.String(), stat, metric.Expression{Name: q.Expression.Name, Stat: stat}.String())
	}
	if width == 0 {
		width = t.DefaultWindow()
	}
	index := t.spanIndex(width)
	r := &evaluation{table: t, now: now, match: q.MatchLabels, pace: &t.slow}
	r.Reader = kind.Reader{Env: &t.Env, Kind: k, Stat: stat, View: t.Spans[index].View(index, t.Clock.Tick, now),
		Meter: window.Meter{Logs: t.Logs, Clock: t.Clock, Now: now, Window: width, Shortest: t.Spans[0].Window}}
	return r, nil
}

// living drops the leading entries whose series are all removed, or expired and not yet swept. So
// the first remaining entry has a live series.
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

// lives reports whether a series is live and has not expired. If it has expired, lives enters it in
// the removal log, for error messages.
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

// spanIndex is the index of a window in Spans, or -1 if the table does not keep the window.
func (t *Table) spanIndex(w time.Duration) int {
	for i := range t.Spans {
		if t.Spans[i].Window == w {
			return i
		}
	}
	return -1
}

// viewOf returns a window that ends at a moment. Of a window that the table does not keep, it reads
// the records of the next longer one, or as far back as the longest reaches.
func (t *Table) viewOf(w time.Duration, now window.Moment) window.View {
	i, _ := slices.BinarySearchFunc(t.Spans, w, func(s window.Span, w time.Duration) int { return cmp.Compare(s.Window, w) })
	i = min(i, len(t.Spans)-1)
	span := &t.Spans[i]
	if span.Window != w {
		other := *span
		other.Window = w
		span = &other
	}
	return span.View(i, t.Clock.Tick, now)
}
