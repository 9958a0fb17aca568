package aggregate

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Objects of one list may have a metric's name in different kinds. A stat is read from those whose kind has it. The bare name means
// the kind that most of them have, or the newer of two equals. The other objects are absent from the answer, and the log says so.

// kindCounts counts something by kind.
type kindCounts [metric.Set + 1]int

// kindSet is a set of kinds, a bit for each.
type kindSet uint8

func (s kindSet) has(k metric.Kind) bool { return s&(1<<k) != 0 }

// mixed reports whether a family's entries have different kinds. Nearly none has.
func (x *index) mixed(key familyKey) bool {
	shard, hash := x.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	f, kinds := shard.family(hash, key), 0
	if f == nil {
		return false
	}
	for _, n := range f.kinds {
		kinds += min(n, 1)
	}
	return kinds > 1
}

// chooseKinds says which kinds answer a query, and which one of them its error messages name. Entries begin with one that lives.
func (t *Table) chooseKinds(q *metric.Query, key familyKey, entries []found, now moment) (kind metric.Kind, takes kindSet) {
	kind = entries[0].entry.kind
	if !t.index.mixed(key) {
		return kind, 1 << kind
	}
	objects, born := t.countKinds(entries, now)
	kinds := objects.ranked(&born)
	if len(kinds) > 0 {
		kind = kinds[0]
	}
	takes = 1 << kind
	for _, k := range kinds {
		if q.Expression.Stat != metric.NoStat && k.Has(q.Expression.Stat) {
			if !kind.Has(q.Expression.Stat) {
				kind, takes = k, 1<<k
			}
			takes |= 1 << k
		}
	}
	if slices.ContainsFunc(kinds, func(k metric.Kind) bool { return !takes.has(k) }) && t.mixed.due(key, now.wall) {
		t.mixed.warn(key, kinds, &objects, takes)
	}
	return kind, takes
}

// countKinds counts the objects of each kind that have a living series, and says when the newest of these was born.
func (t *Table) countKinds(entries []found, now moment) (objects, born kindCounts) {
	for i, one := range entries {
		if i%perHold == perHold-1 {
			runtime.Gosched()
		}
		kind, lives := one.entry.kind, 0
		for _, r := range one.series {
			if t.lives(r, now) {
				b, place := t.blocks.of(r.number)
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

// ranked lists the kinds that there are, the one of the most objects first, of equals the newer.
func (c *kindCounts) ranked(born *kindCounts) (kinds []metric.Kind) {
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

// mixedKinds warns of metrics that have different kinds on objects of one list.
type mixedKinds struct {
	log *slog.Logger
	warnings
}

func (m *mixedKinds) warn(key familyKey, kinds []metric.Kind, objects *kindCounts, takes kindSet) {
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
		"push it as one kind, or under two names", "metric", key.name, "resource", key.resource, "namespace", key.namespace,
		"read", strings.Join(read, ", "), "absent", strings.Join(absent, ", "))
}
