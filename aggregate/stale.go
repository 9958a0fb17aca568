package aggregate

import (
	"maps"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// markStale removes the series of a staleness marker. The first of the two steps (expiry.go) waits
// for no writer, so a writer may take it between any two samples. Samples that other writers apply
// before the second step count as if they had come before the removal.
//
// A running total that comes later begins a new series. The growth in between is not counted,
// because the client may have been replaced.
func (w *Writer) markStale(s *metric.Sample) metric.Reason {
	decided := w.decision(s)
	if decided.rejected != metric.Applied {
		return decided.rejected
	}
	t := w.table
	to, _, there := t.locate(&decided.identity)
	if now := t.Clock.Now(); there {
		if t.outlives(to, s, now) {
			return metric.Applied
		}
		t.evict([]lookup.Ref{to}, markedStale, now)
	}
	if tell := t.staleElsewhere.Load(); tell != nil && t.isStaleElsewhere(&decided.identity, s) {
		(*tell)(decided.identity.Object, decided.identity.Name, metric.TrustPackedLabels(decided.identity.Labels))
	}
	return metric.Applied
}

// OnStaleElsewhere sets the function that is called for a staleness marker whose series another
// origin has: the client was another replica's before. Its arguments are borrowed.
func (t *Table) OnStaleElsewhere(tell func(o metric.Object, name string, labels metric.Labels)) {
	t.staleElsewhere.Store(&tell)
}

// isStaleElsewhere reports whether another origin has the series of a staleness marker, without a
// newer value.
func (t *Table) isStaleElsewhere(f *index.Identity, s *metric.Sample) bool {
	for from := range t.eachOrigin {
		form := *f
		form.Hash(&from.index.Hash)
		shard := from.canon.Shard(form.Sum)
		shard.Mu.Lock()
		to, _, there := from.locate(&form)
		shard.Mu.Unlock()
		if there && !from.outlives(to, s, from.Clock.Now()) {
			return true
		}
	}
	return false
}

// outlives reports whether a series has a value newer than a staleness marker.
func (t *Table) outlives(to lookup.Ref, s *metric.Sample, now window.Moment) bool {
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != to.State {
		return false // removed; its place may hold a series of another kind by now
	}
	if s.Dated != 0 && kind.DateOf(s, now) < kind.StandingDate(kind.Of(b.page.kinds[place]).DateLocked(b.handle(place)), now) {
		return true
	}
	if s.Arrived == 0 {
		return false
	}
	held := now.TickOf(time.Unix(0, s.Arrived), t.Clock.Tick)
	return b.page.dirty.Has(place) || b.page.cells[place].History.Stamp > held
}

// Series that were deleted here are hidden in the shadows of other origins, until their origins have
// deleted them too. An origin that is away does so when it is back.

// hiding are the hidden series of an epoch of a shadow.
type hiding struct {
	table *Table

	mu     sync.RWMutex // guards the rest
	until  map[lookup.Ref]time.Time
	latest time.Time // of these
	enough int       // number of them from which those that are gone are forgotten
}

// leastForgotten is the smallest hiding.enough.
const leastForgotten = 64

// hiddenSeries are the hidden series of one read.
type hiddenSeries struct {
	of    *hiding   // nil: none is hidden
	heard time.Time // when the origin was last heard
}

// The times for which an origin is heard after a deletion until its series is shown again: by then it has
// deleted the series, or received newer samples.
const (
	hiddenFor = 10 * time.Second
	// hiddenForGroups are two flushes: the group's document goes to the origin with one, the removal
	// comes back with one.
	hiddenForGroups = time.Second
	// hiddenForNamespaces is as long as deletions are told: an origin that was away removes what an ended
	// namespace had once it has read the cluster.
	hiddenForNamespaces = 24 * time.Hour
)

func (h *hiddenSeries) has(r lookup.Ref) bool {
	if h.of == nil {
		return false
	}
	h.of.mu.RLock()
	defer h.of.mu.RUnlock()
	until, has := h.of.until[r]
	return has && h.heard.Before(until)
}

// Remove is Table.Remove of the own table. With Hide, it removes series of groups.
func (m *Merged) Remove(o metric.Object, name string, sets []metric.Labels) {
	m.own.Remove(o, name, sets)
}

// Hide hides the series of a metric of an object that have exactly these label sets in the shadows, until
// their origins have heard of it.
func (m *Merged) Hide(o metric.Object, name string, sets []metric.Labels) {
	for _, p := range *m.peers.Load() {
		t := p.shadow.Table()
		if refs := t.withLabels(o, name, sets); len(refs) > 0 {
			p.hide(t, refs, hiddenForGroups)
		}
	}
}

// Lifetime is Table.Lifetime.
func (m *Merged) Lifetime() time.Duration { return m.own.Lifetime() }

// hide hides more series of a table. Once they are twice as many, those that are gone are forgotten.
func (p *peer) hide(t *Table, refs []lookup.Ref, heardFor time.Duration) {
	until, h := time.Now().Add(heardFor), p.hidingOf(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range refs {
		h.until[r] = until
	}
	if h.latest.Before(until) {
		h.latest = until
	}
	if len(h.until) > h.enough {
		maps.DeleteFunc(h.until, func(r lookup.Ref, _ time.Time) bool { return !t.isLive(r) })
		h.enough = max(2*len(h.until), leastForgotten)
	}
}

// hidingOf returns the hidden series of a table, which replace those of the epoch before.
func (p *peer) hidingOf(t *Table) *hiding {
	for {
		old := p.hidden.Load()
		if old != nil && old.table == t {
			return old
		}
		fresh := &hiding{table: t, until: map[lookup.Ref]time.Time{}}
		if p.hidden.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// uncount stops counting series, which leave again when they are removed: while their origin is away, the
// series of an ended namespace take nothing from the limit of the next namespace of its name.
func (t *Table) uncount(refs []lookup.Ref) {
	for _, r := range refs {
		t.ifLive(r, func(b *block, place uint32) {
			s := &b.series[place]
			o := s.entry.Object()
			t.admission.Leave(&o, s.entry.Family.Key.Name, s.labels())
		})
	}
}

// hiddenIn returns the hidden series of a table.
func (p *peer) hiddenIn(t *Table) hiddenSeries {
	h, heard := p.hidden.Load(), p.shadow.HeardAt()
	if h == nil || h.table != t {
		return hiddenSeries{}
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !heard.Before(h.latest) {
		return hiddenSeries{}
	}
	return hiddenSeries{h, heard}
}
