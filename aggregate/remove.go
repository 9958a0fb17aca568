package aggregate

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
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
	for _, found := range t.index.Find(key, q, t.index.ScopeOf(key, q), new(index.Buffer)) {
		for _, r := range found.Series {
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
	for _, found := range t.seriesOf(o, name) {
		gone = append(gone, found.Series...)
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
	return t.index.FindObject(index.Key{Resource: o.Resource, Namespace: o.Namespace, Name: name}, o.Name,
		metric.ObjectFilter{Match: same}, new(index.Buffer))
}

// Idle returns the time since the last sample of a metric of an object, or 0 if there is no such
// metric.
func (t *Table) Idle(o metric.Object, name string) time.Duration {
	now := t.Clock.Now()
	idle := time.Duration(-1)
	for _, found := range t.seriesOf(o, name) {
		for _, r := range found.Series {
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
		for _, found := range t.index.Shards[i].All() {
			if !found.Entry.External() && !alive(found.Entry.Object()) {
				dead = append(dead, found.Series...)
			}
		}
		gone += t.evict(dead, objectGone, t.Clock.Now())
	}
	return gone
}

// removalLog holds the latest removal of up to maxRemovals metrics, by object and for all objects
// together ("*"). Error messages use it to explain why a metric is absent.
type removalLog struct {
	mu    sync.Mutex
	at    map[removalKey]removal
	ring  []removalKey
	next  int
	ended map[string]time.Duration // by namespace: removals of series that were last seen before are not shown
}

type removalKey struct {
	family index.Key
	object string
}

type removal struct {
	seen window.LifeStamp
	why  string // empty: no removal is known
}

const maxRemovals = 8192

func (g *removalLog) note(e *index.Entry, r removal) {
	namespace := e.Family.Key.Namespace
	if e.Family.Key.Resource == "namespaces" {
		namespace = e.Name
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if until, has := g.ended[namespace]; has && window.LifeAt(r.seen) <= until {
		return
	}
	for _, object := range []string{e.Name, "*"} {
		g.noteLocked(removalKey{e.Family.Key, object}, r)
	}
}

func (g *removalLog) noteLocked(key removalKey, r removal) {
	if g.at == nil {
		g.at, g.ring = map[removalKey]removal{}, make([]removalKey, maxRemovals)
	}
	if _, there := g.at[key]; !there {
		delete(g.at, g.ring[g.next])
		g.ring[g.next] = key
		g.next = (g.next + 1) % maxRemovals
	}
	g.at[key] = r
}

// forget removes what is known of a namespace that ended: its metrics' names are not for a later one's readers. Nor are
// removals that follow, as of series that their origin removes later; it has a day for that.
func (g *removalLog) forget(namespace string, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.ended, func(_ string, at time.Duration) bool { return now-at > 24*time.Hour })
	if g.ended == nil {
		g.ended = map[string]time.Duration{}
	}
	g.ended[namespace] = now
	for i, key := range g.ring {
		if key.family.Namespace == namespace || key.family.Resource == "namespaces" && key.object == namespace {
			delete(g.at, key)
			g.ring[i] = removalKey{}
		}
	}
}

func (g *removalLog) find(family index.Key, object string) removal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[removalKey{family, object}]
}

func (t *Table) removalOf(b *block, place uint32, why cause) removal {
	seen := b.page.cells[place].Seen.Load()
	switch why {
	case deleted:
		return removal{seen, "deleted"}
	case objectGone:
		return removal{seen, "when its object was deleted or finished"}
	case overLimit:
		return removal{seen, "evicted by a limit in favour of another metric"}
	case markedStale:
		return removal{seen, "when its client marked it stale"}
	case removedThere:
		return removal{seen, "removed at the replica that received it"}
	case madeRoom:
		return removal{seen, "evicted to make room for newer series"}
	}
	ttl, _ := t.ttl(b, place)
	return removal{seen, fmt.Sprintf("expired after %s", metric.FormatWindow(ttl))}
}

// A replica may hear of a deletion late, and its client may have begun the series again. So only
// series that are older than the deletion are deleted.

// DeleteBorn is Delete for series that were born before a moment.
func (t *Table) DeleteBorn(q metric.Query, before time.Time) int {
	now := t.Clock.Now()
	old := slices.DeleteFunc(t.selected(&q), func(r lookup.Ref) bool { return !t.bornBefore(r, now, before, 0) })
	return t.evict(old, deleted, now)
}

// DeleteBorn is Delete for series that were born before a moment. Series of other origins are
// hidden until the origin has heard of the deletion.
func (m *Merged) DeleteBorn(q metric.Query, before time.Time) int {
	if m.alone() {
		return m.own.DeleteBorn(q, before)
	}
	return m.deleteBorn(&q, before, hiddenFor)
}

// DeleteNamespace removes the series of a namespace, external ones and those of its objects, that were born
// before a moment, and returns their number.
func (t *Table) DeleteNamespace(namespace string, before time.Time) (gone int) {
	for key := range t.familiesOf(namespace) {
		gone += t.DeleteBorn(everythingOf(key, namespace), before)
	}
	t.removals.forget(namespace, t.Clock.Now().Life)
	return gone
}

// DeleteNamespace is Table.DeleteNamespace for all origins. Series of other origins are hidden until their
// origins remove them, even if those are away for long.
func (m *Merged) DeleteNamespace(namespace string, before time.Time) (gone int) {
	if m.alone() {
		return m.own.DeleteNamespace(namespace, before)
	}
	all := m.own.familiesOf(namespace)
	for _, p := range *m.peers.Load() {
		maps.Copy(all, p.shadow.Table().familiesOf(namespace))
	}
	for key := range all {
		q := everythingOf(key, namespace)
		gone += m.deleteBorn(&q, before, hiddenForNamespaces)
	}
	m.own.removals.forget(namespace, m.own.Clock.Now().Life)
	for _, p := range *m.peers.Load() {
		t := p.shadow.Table()
		t.removals.forget(namespace, t.Clock.Now().Life)
	}
	return gone
}

// familiesOf finds the families of a namespace, and those of Namespace objects.
func (t *Table) familiesOf(namespace string) map[index.Key]struct{} {
	all := map[index.Key]struct{}{}
	t.index.EachFamily(func(f *index.Family) {
		if f.Key.Namespace == namespace || f.Key.Resource == "namespaces" {
			all[f.Key] = struct{}{}
		}
	})
	return all
}

// everythingOf selects what a family has of a namespace: all objects, whatever their UIDs.
func everythingOf(key index.Key, namespace string) metric.Query {
	q := metric.Query{Resource: key.Resource, Namespace: key.Namespace, Expression: metric.Expression{Name: key.Name},
		MatchObject: func(metric.Object) bool { return true }}
	switch key.Resource {
	case "":
	case "namespaces":
		q.Object = namespace
	default:
		q.Object = "*"
	}
	return q
}

// bornBefore selects the twins that were born before a moment; zero: all.
func (r *mergedRead) bornBefore(twins []twin, before time.Time) []twin {
	if before.IsZero() {
		return twins
	}
	return slices.DeleteFunc(twins, func(t twin) bool {
		s := &r.sources[t.source]
		doubt := time.Duration(0)
		if s.peer != nil { // shadows know the tick of a birth only, and the origin will decide
			doubt = s.table.Clock.Tick
		}
		return !s.table.bornBefore(t.Ref, s.now, before, doubt)
	})
}

// bornBefore reports whether a live series was born before a moment, by more than doubt: time of the
// table's own clock, which stands while no process runs.
func (t *Table) bornBefore(r lookup.Ref, now window.Moment, before time.Time, doubt time.Duration) bool {
	b, place := t.blocks.of(r.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != r.State {
		return false
	}
	s := &b.series[place]
	born := time.Duration(s.born)*t.Clock.Tick + time.Duration(s.bornMillis)*time.Millisecond
	return born+doubt < t.Clock.AtOf(now, before)
}
