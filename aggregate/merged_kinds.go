package aggregate

import (
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/metric"
)

// chooseKinds is Table.chooseKinds over all origins.
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

// countKinds is Table.countKinds over all origins. A birth is a position in ticks, plus longAgo.
func (r *mergedRead) countKinds() (objects, born index.KindCounts) {
	const longAgo = 1 << 40
	found := make([][]index.Found, len(r.sources))
	for i := range r.sources {
		found[i] = r.sources[i].found
	}
	for parts := r.next(); len(parts) > 0; parts = r.next() {
		k, lives := r.kindOf(parts), 0
		for _, p := range ofKind(parts, k) {
			if youngest, _, some := r.birthsOf(p); some {
				born[k], lives = max(born[k], longAgo+int(youngest)), 1
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
	if !slices.ContainsFunc(parts, func(p part) bool { return p.Entry.Kind != k }) {
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
