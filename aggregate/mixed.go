package aggregate

import (
	"fmt"
	"log/slog"
	"runtime"
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
func (t *Table) chooseKinds(q *metric.Query, key index.Key, entries []index.Found, now window.Moment) (kind metric.Kind, takes kindSet) {
	kind = entries[0].Entry.Kind
	if !t.index.Mixed(key) {
		return kind, 1 << kind
	}
	objects, born := t.countKinds(entries, now)
	return t.mixed.choose(q, key, kind, &objects, &born, now)
}

// choose chooses among the kinds that objects have, and warns if some objects are absent. kind is
// that of the first object.
func (m *kindConflicts) choose(q *metric.Query, key index.Key, kind metric.Kind, objects, born *index.KindCounts, now window.Moment) (metric.Kind, kindSet) {
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

// countKinds counts the objects with a live series by kind, and returns the birth tick of each
// kind's youngest live series.
func (t *Table) countKinds(entries []index.Found, now window.Moment) (objects, born index.KindCounts) {
	for i, one := range entries {
		if i%index.EntriesPerHold == index.EntriesPerHold-1 {
			runtime.Gosched()
		}
		kind, lives := one.Entry.Kind, 0
		for _, r := range one.Series {
			if t.lives(r, now) {
				b, place := t.blocks.of(r.Number)
				b.history.Lock()
				born[kind] = max(born[kind], int(b.series[place].born))
				b.history.Unlock()
				lives = 1
			}
		}
		objects[kind] += lives
	}
	return objects, born
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
