package aggregate

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A Snapshot answers several queries as of one moment: all windows end at it. The first query reads
// the clocks, after its Reserve. Samples that arrive between two queries may be in the second
// answer only, as they may be in the second half of one large answer. A Snapshot is used within a
// second, by one goroutine.
type Snapshot struct {
	merged *Merged
	clocks []source // as read by the first query; nil: not yet
}

// Begin starts the queries of a moment.
func (m *Merged) Begin() *Snapshot { return &Snapshot{merged: m} }

// sources returns the origins for one query, which ends before the next one begins.
func (s *Snapshot) sources() ([]source, error) {
	s.readClocks()
	return s.clocks, s.merged.incomplete()
}

func (s *Snapshot) readClocks() {
	if s.clocks == nil {
		s.clocks = s.merged.sources()
	}
}

// now is the moment, of the own clock.
func (s *Snapshot) now() window.Moment {
	s.readClocks()
	return s.clocks[ownSource(s.clocks)].now
}

// Zero returns a point for a counter or set that received no sample in the window: value 0, at the
// moment, with the queried window or the default one. The caller sets the object.
func (s *Snapshot) Zero(asked metric.Expression) metric.Point {
	return metric.Point{Time: s.now().Date(), Window: cmp.Or(asked.Window, s.merged.own.DefaultWindow())}
}

// Objects answers a query for a custom metric: one value for each object, rolled up over the object's label
// sets; or a roll-up of all objects.
func (s *Snapshot) Objects(q metric.Query) ([]metric.Point, error) {
	m, key := s.merged, index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	limit := 0
	if q.Reserve != nil {
		limit = m.mostObjects(key, &q)
	}
	points, err := pointBuffer(&q, limit)
	if err != nil {
		return nil, err
	}
	sources, err := s.sources()
	if err != nil {
		return nil, err
	}
	r, err := m.plan(sources, &q, key)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if q.Kind != nil {
		*q.Kind = r.Kind
	}
	var matched bool
	if q.RollUp != nil {
		points, matched = r.rollUp(points, q.RollUp)
	} else {
		points, matched = r.objects(slices.Grow(points, r.mostFound()))
	}
	return points, r.failure(&q, points, matched)
}

// mostObjects is an upper bound of the points of Objects.
func (m *Merged) mostObjects(key index.Key, q *metric.Query) int {
	if q.RollUp != nil {
		return 1
	}
	return m.mostEntries(key, q)
}

// External answers a query for an external metric. An additive stat has one value for each label
// set. Any other stat has one value for all label sets together, with the labels that they share.
// If the namespace has no metric of the name, the cluster-wide metric answers.
func (s *Snapshot) External(q metric.Query) ([]metric.Point, error) {
	q.Resource, q.Object = "", ""
	m, key := s.merged, index.Key{Namespace: q.Namespace, Name: q.Expression.Name}
	limit := 0
	if q.Reserve != nil {
		if limit = m.mostEntries(key, &q); limit == 0 {
			limit = m.mostEntries(index.Key{Name: key.Name}, &q)
		}
	}
	points, err := pointBuffer(&q, limit) // which may wait: clocks and entries are read afterwards
	if err != nil {
		return nil, err
	}
	sources, err := s.sources()
	if err != nil {
		return nil, err
	}
	r, err := m.plan(sources, &q, key)
	if err != nil {
		return nil, err
	}
	defer r.end()
	parts := r.next()
	points, matched := r.external(points, ofKind(parts, r.Kind))
	for i := range points {
		points[i].Object = parts[0].Entry.Object()
	}
	return points, r.failure(&q, points, matched)
}

// Objects is Snapshot.Objects as of its own moment.
func (m *Merged) Objects(q metric.Query) ([]metric.Point, error) { return m.Begin().Objects(q) }

// External is Snapshot.External as of its own moment.
func (m *Merged) External(q metric.Query) ([]metric.Point, error) { return m.Begin().External(q) }

// pointBuffer returns the query's buffer for up to so many points; nil if the query reserves none.
func pointBuffer(q *metric.Query, points int) ([]metric.Point, error) {
	if q.Reserve == nil {
		return nil, nil
	}
	buffer, err := q.Reserve(points)
	return buffer[:0], err
}

// Listed returns the distinct metrics, in a stable order: at most limit external metrics, then at
// most limit metrics of objects.
func (t *Table) Listed(limit int) []metric.Discovered { return t.index.Listed(limit) }

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
func (t *Table) evaluationOf(q *metric.Query, k metric.Kind, now window.Moment) (r evaluation, _ error) {
	stat, width := q.Expression.Stat, q.Expression.Window
	if stat == metric.NoStat {
		stat = k.DefaultStat()
	}
	if !k.Has(stat) {
		return r, metric.InvalidQueryf("%q is a %s: it has %s, but no %s",
			q.Expression.Name, k, metric.StatNames(k.Stats()), stat)
	}
	if !stat.Windowed() && width != 0 {
		return r, metric.InvalidQueryf("%q: %s is the same in every window; ask for %q",
			q.Expression.String(), stat, metric.Expression{Name: q.Expression.Name, Stat: stat}.String())
	}
	if width == 0 {
		width = t.DefaultWindow()
	}
	index := t.spanIndex(width)
	r = evaluation{table: t, now: now, match: q.MatchLabels, pace: &t.slow}
	r.Reader = kind.Reader{Env: &t.Env, Kind: k, Stat: stat, View: t.Spans[index].View(index, t.Clock.Tick, now),
		Meter: window.Meter{Logs: t.Logs, Clock: t.Clock, Now: now, Window: width, Shortest: t.Spans[0].Window}}
	return r, nil
}

// living drops the leading entries whose series are all removed, hidden, or expired and not yet swept. So
// the first remaining entry has a series that is answered.
func (t *Table) living(entries []index.Found, now window.Moment, hidden hiddenSeries) []index.Found {
	for i, entry := range entries {
		for _, r := range entry.Series {
			if !hidden.has(r) && t.lives(r, now) {
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
	return slices.IndexFunc(t.Spans, func(s window.Span) bool { return s.Window == w })
}

// viewOf returns a window that ends at a moment. Of a window that the table does not keep, it reads
// the records of the next longer one, or as far back as the longest reaches.
func (t *Table) viewOf(w time.Duration, now window.Moment) window.View {
	i, _ := slices.BinarySearchFunc(t.Spans, w, func(s window.Span, w time.Duration) int {
		return cmp.Compare(s.Window, w)
	})
	i = min(i, len(t.Spans)-1)
	span := &t.Spans[i]
	if span.Window != w {
		other := *span
		other.Window = w
		span = &other
	}
	return span.View(i, t.Clock.Tick, now)
}

// Objects of one list may have a metric in different kinds. A query for a stat reads the objects
// whose kind has that stat. A query without a stat reads the kind that most objects have; of two
// equally frequent kinds, the one with the youngest series. The other objects are absent from the
// answer, and the log warns of that.

// kindSet is a bitmap of kinds.
type kindSet uint8

func (s kindSet) has(k metric.Kind) bool { return s&(1<<k) != 0 }

// chooseKinds returns the set of kinds that answer a query, and the one that the query's defaults
// and error messages refer to. The first entry has a live series.
func (r *mergedRead) chooseKinds(own *Table, q *metric.Query, key index.Key) (k metric.Kind, takes kindSet) {
	k = metric.NoKind
	mixed := false
	for i := range r.sources {
		s := &r.sources[i]
		if len(s.found) == 0 {
			continue
		}
		mixed = mixed || s.table.index.Mixed(key) || k != metric.NoKind && k != s.found[0].Entry.Kind
		k = s.found[0].Entry.Kind
	}
	if !mixed {
		return k, 1 << k
	}
	objects, born := r.countKinds()
	return own.mixed.choose(q, key, k, &objects, &born, r.sources[r.own].now)
}

// choose chooses among the kinds that objects have, and warns if some objects are absent. kind is
// that of the first object.
func (m *kindConflicts) choose(q *metric.Query, key index.Key, kind metric.Kind, objects, born *index.KindCounts,
	now window.Moment) (metric.Kind, kindSet) {
	kinds := ranked(objects, born)
	if len(kinds) > 0 {
		kind = kinds[0]
	}
	takes := kindSet(1 << kind)
	for _, k := range kinds {
		if q.Expression.Stat != metric.NoStat && k.Has(q.Expression.Stat) {
			if !kind.Has(q.Expression.Stat) {
				kind, takes = k, 1<<k
			}
			takes |= 1 << k
		}
	}
	if slices.ContainsFunc(kinds, func(k metric.Kind) bool { return !takes.has(k) }) && m.due(key, now.Wall) {
		m.warn(key, kinds, objects, takes)
	}
	return kind, takes
}

// countKinds counts the objects with a live series by kind, and returns the birth of each kind's youngest
// live series: a position in thousandths of a tick, plus longAgo.
func (r *mergedRead) countKinds() (objects, born index.KindCounts) {
	const longAgo = 1 << 50
	found := make([][]index.Found, len(r.sources))
	for i := range r.sources {
		found[i] = r.sources[i].found
	}
	for parts := r.next(); len(parts) > 0; parts = r.next() {
		k, lives := r.kindOf(parts), 0
		for _, p := range ofKind(parts, k) {
			if youngest, _, some := r.birthsOf(p); some {
				born[k], lives = max(born[k], longAgo+int(1000*youngest)), 1
			}
		}
		objects[k] += lives
	}
	for i := range r.sources {
		r.sources[i].found, r.sources[i].seen = found[i], 0
	}
	return objects, born
}

// kindOf returns the kind of an object. If origins have it in different kinds, it is the kind whose
// series is older, then the first origin's.
func (r *mergedRead) kindOf(parts []part) metric.Kind {
	k := parts[0].Entry.Kind
	if len(parts) == 1 || !slices.ContainsFunc(parts, func(p part) bool { return p.Entry.Kind != k }) {
		return k
	}
	oldest := 0.0
	for i, p := range parts {
		if _, born, lives := r.birthsOf(p); lives && (i == 0 || born < oldest) {
			k, oldest = p.Entry.Kind, born
		}
	}
	return k
}

// birthsOf returns the positions of the births of an entry's youngest and oldest live series.
func (r *mergedRead) birthsOf(p part) (youngest, oldest float64, lives bool) {
	src := &r.sources[p.source]
	for _, s := range p.Series {
		if !src.table.lives(s, src.now) || src.hidden.has(s) {
			continue
		}
		b, place := src.table.blocks.of(s.Number)
		b.history.Lock()
		born := src.course.Middle(b.series[place].born)
		b.history.Unlock()
		if !lives {
			youngest, oldest, lives = born, born, true
		}
		youngest, oldest = max(youngest, born), min(oldest, born)
	}
	return youngest, oldest, lives
}

// ranked lists the kinds that occur, ordered by number of objects, then by the birth of the
// youngest series, both descending.
func ranked(c, born *index.KindCounts) (kinds []metric.Kind) {
	for k, n := range c {
		if n > 0 {
			kinds = append(kinds, metric.Kind(k))
		}
	}
	slices.SortStableFunc(kinds, func(a, b metric.Kind) int {
		if c[a] != c[b] {
			return c[b] - c[a]
		}
		return born[b] - born[a]
	})
	return kinds
}

// kindConflicts warns of metrics that have different kinds on objects of one list.
type kindConflicts struct {
	log *slog.Logger
	warnings
}

func (m *kindConflicts) warn(key index.Key, kinds []metric.Kind, objects *index.KindCounts, takes kindSet) {
	var read, absent []string
	for _, k := range kinds {
		text := fmt.Sprintf("%s on %d", k, objects[k])
		if takes.has(k) {
			read = append(read, text)
		} else {
			absent = append(absent, text)
		}
	}
	m.log.Warn("a metric has different kinds on objects of one list; objects of the kinds that were not asked for are absent from the answer: "+
		"push it as one kind, or under two names", "metric", key.Name, "resource", key.Resource, "namespace", key.Namespace,
		"read", strings.Join(read, ", "), "absent", strings.Join(absent, ", "))
}
