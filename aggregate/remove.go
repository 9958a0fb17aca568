package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Delete removes the series that a query selects and returns their number. It ignores stat and
// window. Unlike a read, it does not fall back to the cluster-wide metric.
func (t *Table) Delete(q metric.Query) int {
	return t.evict(t.selected(&q), deleted, t.Clock.Now())
}

// selected returns the live series that a query selects.
func (t *Table) selected(q *metric.Query) (all []lookup.Ref) {
	key := index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	for _, one := range t.index.Find(key, q, t.index.ScopeOf(key, q), new(index.Buffer)) {
		for _, r := range one.Series {
			b, place := t.blocks.of(r.Number)
			b.history.Lock()
			if b.page.cells[place].State.Load() == r.State && (q.MatchLabels == nil || q.MatchLabels(b.series[place].labels())) {
				all = append(all, r)
			}
			b.history.Unlock()
		}
	}
	return all
}

// End removes the metric of an object that no longer exists, and returns the number of removed
// series.
func (t *Table) End(o metric.Object, name string) int { return t.remove(o, name, objectGone) }

// Shed evicts the metric of an object that lost its slot of a limit, and returns the number of
// removed series.
func (t *Table) Shed(o metric.Object, name string) int { return t.remove(o, name, overLimit) }

func (t *Table) remove(o metric.Object, name string, why cause) int {
	var gone []lookup.Ref
	for _, one := range t.seriesOf(o, name) {
		gone = append(gone, one.Series...)
	}
	return t.evict(gone, why, t.Clock.Now())
}

// Remove removes the series of a metric of an object that have exactly these label sets, and returns
// their number. The cost does not depend on how many other external series have the name. The UID of an
// object doesn't matter.
func (t *Table) Remove(o metric.Object, name string, sets []metric.Labels) int {
	return t.evict(t.withLabels(o, name, sets), deleted, t.Clock.Now())
}

// withLabels finds the series of a metric of an object that have exactly these label sets.
func (t *Table) withLabels(o metric.Object, name string, sets []metric.Labels) []lookup.Ref {
	if o.External() {
		return t.exactly(o, name, sets)
	}
	// Groups know no UID, so the labels of all series of the object are compared; they are few.
	these := make(map[metric.Labels]struct{}, len(sets))
	for _, set := range sets {
		these[set] = struct{}{}
	}
	return t.selected(&metric.Query{
		Resource: o.Resource, Namespace: o.Namespace, Object: o.Name, Expression: metric.Expression{Name: name},
		MatchLabels: func(have metric.Labels) bool { _, ok := these[have]; return ok },
	})
}

// ShedSeries evicts the series of a metric of an object that have exactly these label sets, and
// returns their number.
func (t *Table) ShedSeries(o metric.Object, name string, sets []metric.Labels) int {
	return t.evict(t.exactly(o, name, sets), overLimit, t.Clock.Now())
}

// exactly finds the series of an object with its UID.
func (t *Table) exactly(o metric.Object, name string, sets []metric.Labels) (found []lookup.Ref) {
	for _, set := range sets {
		form := index.Identity{Object: o, Name: name, Labels: set.Packed()}
		form.Hash(&t.index.Hash)
		shard := t.canon.Shard(form.Sum)
		shard.Mu.Lock()
		if to, _, there := t.locate(&form); there {
			found = append(found, to)
		}
		shard.Mu.Unlock()
	}
	return found
}

// seriesOf finds the entries of a metric of one object, matched by UID too.
func (t *Table) seriesOf(o metric.Object, name string) []index.Found {
	same := func(other metric.Object) bool { return other == o }
	return t.index.FindObject(index.Key{Resource: o.Resource, Namespace: o.Namespace, Name: name}, o.Name, metric.ObjectFilter{Match: same}, new(index.Buffer))
}

// Idle returns the time since the last sample of a metric of an object, or 0 if there is no such
// metric.
func (t *Table) Idle(o metric.Object, name string) time.Duration {
	now := t.Clock.Now()
	idle := time.Duration(-1)
	for _, one := range t.seriesOf(o, name) {
		for _, r := range one.Series {
			if b, place := t.blocks.of(r.Number); t.isLive(r) {
				if since := b.idleFor(place, now); idle < 0 || since < idle {
					idle = since
				}
			}
		}
	}
	return max(idle, 0)
}

// Prune removes the series of all objects for which alive returns false, and returns their number.
// It finds objects that were deleted while no process ran.
func (t *Table) Prune(alive func(metric.Object) bool) (gone int) {
	for i := range t.index.Shards {
		var dead []lookup.Ref
		for _, one := range t.index.Shards[i].All() {
			if !one.Entry.External() && !alive(one.Entry.Object()) {
				dead = append(dead, one.Series...)
			}
		}
		gone += t.evict(dead, objectGone, t.Clock.Now())
	}
	return gone
}
