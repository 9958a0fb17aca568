package aggregate

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A series is removed in two steps (A2). The first, here, clears the live bit of its state: writers
// no longer find it and readers no longer return it. A writer that looked it up earlier may still
// add to it. So the second step (reclaim.go) waits until every writer was quiescent. Then it hands
// late samples to the series' successor, adds the rest to retired, and frees the place.

// evictions holds the tombstones: series between the two steps.
type evictions struct {
	mu         sync.Mutex  // held through each step; locked before all other locks
	tombstones []tombstone // guarded by mu
	// object is scratch space for calls of Admission; guarded by mu.
	object metric.Object

	// The fields below belong to the roller.
	stale  []staleAliases
	cursor uint32 // the block that was swept last
	shard  int    // the shard of aliases that was swept last
}

type tombstone struct {
	lookup.Ref
	epoch uint64
	kind.Remains
	cause cause
}

// cause is the reason of a removal.
type cause uint8

const (
	expired      cause = iota // its lifetime ended
	madeRoom                  // it was long idle, and MaxSeries rejected a new series
	deleted                   // a user or client requested it
	objectGone                // its object no longer exists
	overLimit                 // the metric lost its slot of a limit
	markedStale               // its client sent a staleness marker
	removedThere              // of a shadow's series: its origin removed it
)

// mayHaveSuccessor reports whether late samples move to a new series. For the other causes, late
// samples count as if they had come before the removal.
func (c cause) mayHaveSuccessor() bool { return c == expired || c == madeRoom }

type staleAliases struct {
	shard   int
	numbers []uint32
	epoch   uint64
}

// addPendingLocked adds the values of counters between the two steps, for Balance.
func (e *evictions) addPendingLocked(t *Table, to *kind.Sum) {
	for _, d := range e.tombstones {
		b, place := t.blocks.of(d.Number)
		if b.page.kinds[place] == metric.Counter {
			to.Add(kind.Held(b.handle(place)))
		}
	}
}

// evictAtOnce is the number of series that are removed under one hold of the lock.
const evictAtOnce = 256

// evict takes the first step for some series and removes them from the index. It returns the number
// of removed series: those that expire or make room are removed only if they are still idle.
func (t *Table) evict(old []lookup.Ref, why cause, now window.Moment) (gone int) {
	pace := pace{time.Now()}
	for some := range slices.Chunk(old, evictAtOnce) {
		gone += t.evictSome(some, why, now)
		pace.step()
	}
	return gone
}

func (t *Table) evictSome(old []lookup.Ref, why cause, now window.Moment) int {
	t.evictions.mu.Lock()
	defer t.evictions.mu.Unlock()
	byEntry := map[*index.Entry]int{}
	before := len(t.evictions.tombstones)
	for _, r := range old {
		d, e := t.turnDead(r, why, now)
		if e == nil {
			continue
		}
		t.evictions.tombstones = append(t.evictions.tombstones, d)
		byEntry[e]++
	}
	for e, n := range byEntry {
		e.Family.Shard.Mu.Lock()
		e.RemoveLocked(n, t.isLive)
		e.Family.Shard.Mu.Unlock()
	}
	fresh := t.evictions.tombstones[before:]
	if len(fresh) == 0 {
		return 0
	}
	t.retryEpoch.Add(1)
	epoch := t.Epochs.Advance()
	for i := range fresh {
		fresh[i].epoch = epoch
	}
	return len(fresh)
}

// isLive reports whether a reference still leads to a live series.
func (t *Table) isLive(r lookup.Ref) bool {
	b, place := t.blocks.of(r.Number)
	return b.page.cells[place].State.Load() == r.State
}

// turnDead takes the first step for one series. It returns a nil entry if the series was removed
// already, or is no longer idle.
func (t *Table) turnDead(r lookup.Ref, why cause, now window.Moment) (tombstone, *index.Entry) {
	b, place := t.blocks.of(r.Number)
	b.history.Lock()
	defer b.history.Unlock()
	c, s := &b.page.cells[place], &b.series[place]
	if c.State.Load() != r.State {
		return tombstone{}, nil
	}
	if why == expired && !t.hasExpired(b, place, now) || why == madeRoom && b.idleFor(place, now) <= evictableAfter {
		return tombstone{}, nil
	}
	c.State.Store(r.State &^ kind.Live)
	b.recorded[place/64].Add(1)
	b.unnamed.Mark(place)
	b.renamed.Store(true)
	t.live.Add(-1)
	t.evicted.Add(1)
	t.removals.note(s.entry, t.removalOf(b, place, why))
	t.evictions.object = s.entry.Object()
	t.admission.Leave(&t.evictions.object, s.entry.Family.Key.Name, s.labels())
	d := tombstone{Ref: r, cause: why, Remains: kind.Remains{Ended: now.Tick}}
	if b.page.kinds[place] == metric.Counter {
		d.Whole, d.Units = kind.Held(b.handle(place))
	}
	return d, s.entry
}
