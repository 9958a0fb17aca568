package aggregate

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Merged answers queries from a table and the shadows of other origins (docs/adr/0049). The same
// series at several origins are twins, and read as one series. Without shadows, the table answers.
type Merged struct {
	own   *Table
	peers atomic.Pointer[[]*peer] // in the order of their names
	rank  atomic.Int32
	gate  func() (bool, string) // nil: answers are always complete
}

// peer is another origin, as answers need it.
type peer struct {
	shadow *Shadow
	hidden atomic.Pointer[hiding]
}

// NewMerged returns the answers of a table alone.
func NewMerged(own *Table) *Merged {
	m := &Merged{own: own}
	m.peers.Store(new([]*peer))
	return m
}

// SetShadows replaces the shadows, in the order of their origins' names. One goroutine calls it.
func (m *Merged) SetShadows(shadows []*Shadow) {
	before, all := *m.peers.Load(), make([]*peer, len(shadows))
	for i, s := range shadows {
		if at := slices.IndexFunc(before, func(p *peer) bool { return p.shadow == s }); at >= 0 {
			all[i] = before[at]
		} else {
			all[i] = &peer{shadow: s}
		}
	}
	m.peers.Store(&all)
	m.own.SetTwins(func(yield func(*Table, Twins) bool) {
		for i, p := range all {
			t := p.shadow.Table()
			if !yield(t, Twins{First: i < int(m.rank.Load()), hidden: p.hiddenIn(t)}) {
				return
			}
		}
	})
}

// SetRank sets the number of shadows whose origins' names sort before the own name. Where origins
// tie, the first name decides, so all replicas decide alike.
func (m *Merged) SetRank(n int) { m.rank.Store(int32(n)) }

// First reports whether this replica has the smallest name of all live ones; it does what only one may
// do.
func (m *Merged) First() bool {
	now := time.Now()
	for i, p := range *m.peers.Load() {
		t := p.shadow.Table()
		if i < int(m.rank.Load()) && !t.Clock.Course(now, t.Clock.Now()).Standing { // one that is cut off goes on
			return false
		}
	}
	return true
}

// SetGate sets the function that reports whether answers are complete and, if not, why. Queries then fail
// with metric.ErrNotReady. Call it before any query.
func (m *Merged) SetGate(complete func() (bool, string)) { m.gate = complete }

// incomplete is the error of a query whose answer would be incomplete, or nil. It is called after the clocks
// are read: a process that stands still in between notices.
func (m *Merged) incomplete() error {
	if m.gate != nil {
		if complete, why := m.gate(); !complete {
			return metric.NotReadyf("%s", why)
		}
	}
	return nil
}

// alone reports whether there is no other origin.
func (m *Merged) alone() bool { return len(*m.peers.Load()) == 0 }

// Listed is Table.Listed over all origins.
func (m *Merged) Listed(limit int) []metric.Discovered {
	all := m.own.Listed(limit)
	if m.alone() {
		return all
	}
	for _, p := range *m.peers.Load() {
		all = append(all, p.shadow.Table().Listed(limit)...)
	}
	slices.SortFunc(all, func(a, b metric.Discovered) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	all = slices.CompactFunc(all, func(a, b metric.Discovered) bool {
		return a.Resource == b.Resource &&
			a.Name == b.Name
	})
	external, _ := slices.BinarySearchFunc(all, limit, func(discovered metric.Discovered, _ int) int {
		if discovered.Resource == "" {
			return -1
		}
		return 1
	})
	return slices.Concat(all[:min(external, limit)], all[external:min(external+limit, len(all))])
}

// Delete removes the series that a query selects from the table, hides them in the shadows, and
// returns their number. See Table.Delete.
func (m *Merged) Delete(q metric.Query) (gone int) {
	if m.alone() {
		return m.own.Delete(q)
	}
	return m.deleteBorn(&q, time.Time{}, hiddenFor)
}

// deleteBorn is Delete for series that were born before a moment; zero: for all. heardFor is how long an
// origin is heard until its series are shown again.
func (m *Merged) deleteBorn(q *metric.Query, before time.Time, heardFor time.Duration) (gone int) {
	key := index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	r := newMergedRead(m.sources())
	r.match = q.MatchLabels
	defer r.end()
	r.find(q, key)
	all := make([][]lookup.Ref, len(r.sources))
	for parts := r.next(); len(parts) > 0; parts = r.next() {
		r.gather(parts)
		for twins := r.nextTwins(); len(twins) > 0; twins = r.nextTwins() {
			if twins = r.bornBefore(twins, before); len(twins) > 0 {
				gone++
			}
			for _, t := range twins {
				all[t.source] = append(all[t.source], t.Ref)
			}
		}
	}
	for i, refs := range all {
		if i == r.own {
			m.own.evict(refs, deleted, m.own.Clock.Now())
		} else if len(refs) > 0 {
			r.sources[i].peer.hide(r.sources[i].table, refs, heardFor)
			if heardFor == hiddenForNamespaces {
				r.sources[i].table.uncount(refs)
			}
		}
	}
	return gone
}

// source is one origin's table during a read.
type source struct {
	table  *Table
	peer   *peer // nil: the own table
	now    window.Moment
	view   window.View
	moved  window.View // if the origin stands still: for series that another one received since
	course window.Course
	offset float64 // ticks by which the own clock is ahead
	hidden hiddenSeries
	buffer *index.Buffer
	found  []index.Found // not visited yet
	seen   int           // number of entries visited
}

// sources reads the clocks of all origins, in the order of their names.
func (m *Merged) sources() []source {
	peers := *m.peers.Load()
	all := make([]source, 0, len(peers)+1)
	local, now := time.Now(), m.own.Clock.Now()
	for i, p := range peers {
		if i == int(m.rank.Load()) {
			all = append(all, sourceOf(m.own, nil, local, now))
		}
		all = append(all, sourceOf(p.shadow.Table(), p, local, now))
	}
	if len(all) == len(peers) {
		all = append(all, sourceOf(m.own, nil, local, now))
	}
	return all
}

// sourceOf reads the clock of a table at a moment of the own clock.
func sourceOf(t *Table, p *peer, local time.Time, own window.Moment) source {
	s := source{table: t, peer: p, now: own}
	if p != nil {
		s.now, s.hidden = t.Clock.Now(), p.hiddenIn(t)
		s.offset = float64(own.At-s.now.At) / float64(t.Clock.Tick)
	}
	s.course = t.Clock.Course(local, s.now)
	return s
}

// mostEntries is an upper bound of the entries that a query selects.
func (m *Merged) mostEntries(key index.Key, q *metric.Query) int {
	n := m.own.index.ScopeOf(key, q).MaxEntries
	for _, p := range *m.peers.Load() {
		n += p.shadow.Table().index.ScopeOf(key, q).MaxEntries
	}
	return n
}
