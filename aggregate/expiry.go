package aggregate

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A page holds the lifetimes that clients push, in 32 bits each. A lifetime below fractionsBelow
// that is not whole seconds is held as ttlMillis plus its milliseconds, any other in seconds. Both
// are rounded up.
const (
	ttlForever     = math.MaxUint32
	ttlGroup       = ttlForever - 1 // metric.WithGroup
	ttlLongest     = ttlGroup - 1   // 136 years
	ttlMillis      = 0xf800_0000
	fractionsBelow = 24 * time.Hour
)

func ttlDuration(kept uint32) time.Duration {
	if kept > ttlMillis && kept < ttlLongest {
		return time.Duration(kept-ttlMillis) * time.Millisecond
	}
	return time.Duration(kept) * time.Second
}

func (p *page) setTTL(place uint32, ttl time.Duration) {
	switch {
	case ttl == 0:
	case ttl == metric.Forever:
		p.ttls[place].Store(ttlForever)
	case ttl == metric.WithGroup:
		p.ttls[place].Store(ttlGroup)
	case ttl < fractionsBelow && ttl%time.Second != 0:
		p.ttls[place].Store(ttlMillis + uint32((ttl+time.Millisecond-1)/time.Millisecond))
	default:
		p.ttls[place].Store(uint32(min(max((ttl-1)/time.Second+1, 1), ttlLongest)))
	}
}

// The sweep visits each series once a minute. A series with a pushed lifetime is swept as soon as
// the lifetime ends: when readers no longer find the series, its name and its slot of a limit are
// free. For this, each page holds the next such end.

// expectEnd lowers the page's next end to that of a series that was just updated.
func (p *page) expectEnd(place uint32, now window.Moment) {
	if p.mayEnd(place) {
		p.lookAt(window.StampOf(now.Life + ttlDuration(p.ttls[place].Load())))
	}
}

// lookAt lowers the page's next end to a stamp, at which the page is swept.
func (p *page) lookAt(end window.LifeStamp) {
	for next := p.nextEnd.Load(); end < next && !p.nextEnd.CompareAndSwap(next, end); {
		next = p.nextEnd.Load()
	}
}

// mayEnd reports whether a series has a lifetime that a client pushed.
func (p *page) mayEnd(place uint32) bool {
	own := p.ttls[place].Load()
	return own != 0 && own < ttlGroup
}

// endOf is the end of a live series with a pushed lifetime; noEnd for other series.
func (b *block) endOf(place uint32, now window.Moment) window.LifeStamp {
	if !b.page.mayEnd(place) {
		return noEnd
	}
	return window.StampOf(now.Life - max(b.idleFor(place, now), 0) + ttlDuration(b.page.ttls[place].Load()))
}

// sweepEnds sweeps the blocks in which a lifetime may be over.
func (t *Table) sweepEnds(now window.Moment, pace *pace) {
	for i := range t.blocks.made.Load() {
		if window.LifeAt(t.blocks.pageAt(i).nextEnd.Load()) < now.Life {
			t.sweepBlock(i, now, pace)
		}
	}
}

// noEnd is the nextEnd of a page without lifetimes.
const noEnd = math.MaxUint32

// ttl returns the lifetime of a series after its last sample, or false if the series never expires: that of an
// object which a cluster watches ends with the object, and has metric.Forever since it was created.
func (t *Table) ttl(b *block, place uint32) (time.Duration, bool) {
	return t.ttlOf(b.page.ttls[place].Load(), b.series[place].entry.External())
}

// ttlOf is ttl of a series with a pushed lifetime, as the page holds it.
func (t *Table) ttlOf(pushed uint32, external bool) (time.Duration, bool) {
	switch {
	case pushed >= ttlGroup:
		return 0, false
	case pushed != 0:
		return ttlDuration(pushed), true
	case external:
		return t.config.ExternalTTL, true
	}
	return t.config.ObjectTTL, true
}

// hasExpired reports whether the lifetime of a series is over. A dirty series has not expired.
func (t *Table) hasExpired(b *block, place uint32, now window.Moment) bool {
	ttl, mortal := t.ttl(b, place)
	return mortal && b.idleFor(place, now) > ttl
}

// idleFor is the time since the last recorded sample of a series.
func (b *block) idleFor(place uint32, now window.Moment) time.Duration {
	if b.page.dirty.Has(place) {
		return 0
	}
	return now.Since(b.page.cells[place].Seen.Load())
}

// sweepTurns is the number of rolls over which one sweep of all series is spread.
const sweepTurns = 120

// sweep visits a part of the series and aliases, and takes the second step of removals that are
// due.
func (t *Table) sweep() {
	now, pace := t.Clock.Now(), pace{time.Now()}
	made := t.blocks.made.Load()
	part := made/sweepTurns + 1
	if t.waiting.count() > 0 {
		part = made // MaxSeries has rejected new series: look for idle ones in all blocks
	}
	t.sweepEnds(now, &pace)
	for range min(made, part) {
		t.evictions.cursor = (t.evictions.cursor + 1) % made
		t.sweepBlock(t.evictions.cursor, now, &pace)
	}
	t.waiting.next(t.heldSeries() >= t.config.MaxSeries)
	for range lookup.SlotShards/sweepTurns + 1 {
		t.sweepAliases()
		pace.step()
	}
	t.reclaim(&pace)
	t.forgetFeeds(now.At)
	if t.outOfMemory.Swap(false) && t.MayGrow() {
		t.retryEpoch.Add(1)
	}
}

// evictableAfter is the idle time after which a series is evicted for one that MaxSeries rejected.
const evictableAfter = time.Hour

func (t *Table) sweepBlock(index uint32, now window.Moment, pace *pace) {
	b := t.blocks.at[index].Load()
	var old, idle []lookup.Ref
	makeRoom, next := t.seriesToEvict(), window.LifeStamp(noEnd)
	b.page.nextEnd.Store(noEnd) // samples from here on lower it again
	for place := range uint32(kind.BlockSeries) {
		state := b.page.cells[place].State.Load()
		if state&kind.Live == 0 {
			continue
		}
		t.keep(b, place, now)
		switch to := (lookup.Ref{Number: index<<kind.BlockBits | place, State: state}); {
		case t.hasExpired(b, place, now):
			old = append(old, to)
		case len(idle) < makeRoom && b.idleFor(place, now) > evictableAfter:
			idle = append(idle, to)
		default:
			next = min(next, b.endOf(place, now))
			t.shrink(b, place, now)
		}
		if place%64 == 0 {
			pace.step()
		}
	}
	b.page.lookAt(next)
	t.evict(old, expired, now)
	t.evict(idle, madeRoom, now)
}

// seriesToEvict is the number of idle series that those which MaxSeries rejected still need.
func (t *Table) seriesToEvict() int {
	if n := t.waiting.count(); n > 0 {
		return n + t.heldSeries() - t.config.MaxSeries
	}
	return 0
}

// shrink frees memory that an idle series no longer needs.
func (t *Table) shrink(b *block, place uint32, now window.Moment) {
	b.history.Lock()
	defer b.history.Unlock()
	kind.Of(b.page.kinds[place]).ShrinkLocked(&t.Env, b.handle(place), now.Tick)
}

// sweepAliases removes the aliases of one shard that lead to a removed series or an outdated
// rejection. If a series has maxAliases, one of them is removed too: its sender may be gone, and an
// alias in use is soon remembered again.
func (t *Table) sweepAliases() {
	e := &t.evictions
	e.shard = (e.shard + 1) % lookup.SlotShards
	epoch, rejections := t.retryEpoch.Load(), int64(0)
	gone := t.aliases.Sweep(e.shard, func(target uint64) bool {
		if target&lookup.RejectionBit != 0 {
			_, decided := lookup.TargetRejection(target)
			if decided != epoch {
				rejections++
			}
			return decided != epoch
		}
		to := lookup.TargetRef(target)
		b, place := t.blocks.of(to.Number)
		if b.page.cells[place].State.Load() != to.State {
			return true
		}
		full := b.series[place].aliases.Load() >= maxAliases
		if full {
			b.series[place].aliases.Add(^uint32(0))
		}
		return full
	})
	t.rejections.Add(-rejections)
	if len(gone) > 0 {
		e.stale = append(e.stale, staleAliases{e.shard, gone, t.Epochs.Advance()})
	}
}

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
	for chunk := range slices.Chunk(old, evictAtOnce) {
		gone += t.evictSome(chunk, why, now)
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
