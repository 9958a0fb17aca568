package aggregate

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

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
