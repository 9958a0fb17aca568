package aggregate

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Series that were deleted here are hidden in the shadows of other origins, until their origins have
// deleted them too. An origin that is away does so when it is back.

// hiding are the hidden series of an epoch of a shadow.
type hiding struct {
	table *Table
	until map[lookup.Ref]time.Time // never changes
}

// hiddenSeries are the hidden series of one read.
type hiddenSeries struct {
	until map[lookup.Ref]time.Time
	heard time.Time // when the origin was last heard
}

// How long an origin is heard after a deletion until its series is shown again: the origin has deleted it
// by then, or it has received newer samples.
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
	if h.until == nil {
		return false
	}
	until, has := h.until[r]
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

// hide hides more series of a table, and forgets those that are gone.
func (p *peer) hide(t *Table, refs []lookup.Ref, heardFor time.Duration) {
	until := time.Now().Add(heardFor)
	for {
		old := p.hidden.Load()
		fresh := &hiding{t, map[lookup.Ref]time.Time{}}
		if old != nil && old.table == t {
			for r, at := range old.until {
				if t.isLive(r) {
					fresh.until[r] = at
				}
			}
		}
		for _, r := range refs {
			fresh.until[r] = until
		}
		if p.hidden.CompareAndSwap(old, fresh) {
			return
		}
	}
}

// hiddenIn returns the hidden series of a table.
func (p *peer) hiddenIn(t *Table) hiddenSeries {
	if h := p.hidden.Load(); h != nil && h.table == t {
		return hiddenSeries{h.until, p.shadow.HeardAt()}
	}
	return hiddenSeries{}
}
