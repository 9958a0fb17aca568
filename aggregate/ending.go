package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// End removes what there is of a metric of an object that is gone, and returns how many series that were.
func (t *Table) End(o metric.Object, name string) int { return t.remove(o, name, objectEnd) }

// Shed removes a metric of an object that has no place any more, and returns how many series that were.
func (t *Table) Shed(o metric.Object, name string) int { return t.remove(o, name, shedding) }

func (t *Table) remove(o metric.Object, name string, why cause) int {
	var gone []ref
	for _, one := range t.seriesOf(o, name) {
		gone = append(gone, one.series...)
	}
	return t.evict(gone, why, t.clock.now())
}

// Remove removes the external series of a metric that have exactly these label sets, and returns how many there were. However
// many others have the name, it looks at none of them.
func (t *Table) Remove(namespace, name string, sets []metric.Labels) int {
	var gone []ref
	for _, set := range sets {
		form := canonicalForm{object: metric.Object{Namespace: namespace}, name: name, labels: set.Packed()}
		form.sum(&t.index.hash)
		shard := t.canon.shard(form.hash)
		shard.mu.Lock()
		if to, _, there := t.locate(&form); there {
			gone = append(gone, to)
		}
		shard.mu.Unlock()
	}
	return t.evict(gone, deletion, t.clock.now())
}

// seriesOf finds a metric of exactly this object, whatever others have its name.
func (t *Table) seriesOf(o metric.Object, name string) []found {
	same := func(other metric.Object) bool { return other == o }
	return t.index.find(familyKey{o.Resource, o.Namespace, name}, o.Name, metric.ObjectFilter{Match: same}, new(finding))
}

// Idle is how long ago the last sample of a metric of an object came; 0 where there is no such metric.
func (t *Table) Idle(o metric.Object, name string) time.Duration {
	now := t.clock.now()
	idle := time.Duration(-1)
	for _, one := range t.seriesOf(o, name) {
		for _, r := range one.series {
			if b, place := t.blocks.of(r.number); t.isLive(r) {
				if since := b.idleFor(place, now); idle < 0 || since < idle {
					idle = since
				}
			}
		}
	}
	return max(idle, 0)
}

// Prune removes the series of all objects that alive says are gone: what was restored may have lost its object while
// nobody looked.
func (t *Table) Prune(alive func(metric.Object) bool) (gone int) {
	for i := range t.index.shards {
		var dead []ref
		for _, one := range t.index.shards[i].all() {
			if !one.entry.external() && !alive(one.entry.object()) {
				dead = append(dead, one.series...)
			}
		}
		gone += t.evict(dead, objectEnd, t.clock.now())
	}
	return gone
}

// all returns every entry of a shard.
func (s *indexShard) all() (out []found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := 0
	for f := range s.each() {
		for e := range f.entries.all() {
			out = appendFound(out, e, true)
			seen++
			s.letOthersIn(seen)
		}
	}
	return out
}
