package aggregate

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A series goes in two steps. First its state turns dead, so that writers do not find it any more and readers do
// not answer with it. A writer that looked it up just before may still add to it: so only after every writer has
// passed a batch boundary the value is read again, what came late goes to the series' successor, the rest to
// retired, and the place is free. (A2: nothing is lost or counted twice.)

// evictions holds the series between the two steps.
type evictions struct {
	mu    sync.Mutex // held through each step; before all other locks
	limbo []departed // guarded by mu
	// object is that of the series in hand, here for who is handed it; guarded by mu.
	object metric.Object

	// The rest belongs to the roller.
	stale  []staleAliases
	cursor uint32 // the block that the sweep is at
	shard  int    // the shard of aliases that the sweep is at
}

type departed struct {
	ref
	epoch uint64
	whole int64 // what a counter held when it turned dead
	units uint64
	cause cause
	ended uint32 // tick
}

// cause is why a series goes.
type cause uint8

const (
	expiry    cause = iota // what comes late makes a new series
	yielding               // idle for long, where others want its place; likewise
	deletion               // what comes late counts as before the end
	objectEnd              // its object is gone; likewise
	shedding               // a limit has no place for it
	vanishing              // its client has no value for it any more; what comes late counts as before that
)

// mayHaveHeir reports whether what comes late is handed to a new series.
func (c cause) mayHaveHeir() bool { return c == expiry || c == yielding }

type staleAliases struct {
	shard   int
	numbers []uint32
	epoch   uint64
}

// addPendingLocked adds what counters in limbo hold.
func (e *evictions) addPendingLocked(t *Table, to *sum) {
	for _, d := range e.limbo {
		b, place := t.blocks.of(d.number)
		if b.page.kinds[place] == metric.Counter {
			to.add(counterSum(b, place))
		}
	}
}

// sweepTurns is over how many turns of the roller one sweep over all series is spread.
const sweepTurns = 120

// sweep goes over a part of the series and the aliases, and finishes evictions that are due.
func (t *Table) sweep() {
	now, pace := t.clock.now(), pace{time.Now()}
	made := t.blocks.made.Load()
	part := made/sweepTurns + 1
	if t.wanted.Load() > 0 {
		part = made // somebody waits for a place
	}
	t.sweepEnds(now, &pace)
	for range min(made, part) {
		t.evictions.cursor = (t.evictions.cursor + 1) % made
		t.sweepBlock(t.evictions.cursor, now, &pace)
	}
	for range slotShards/sweepTurns + 1 {
		t.sweepAliases()
		pace.step()
	}
	t.finish(&pace)
	if t.starved.Swap(false) && t.mayGrow() {
		t.turn.Add(1)
	}
}

// yieldAfter is how long a series has to be idle before it yields its place to one that was refused for maxSeries.
const yieldAfter = time.Hour

func (t *Table) sweepBlock(index uint32, now moment, pace *pace) {
	b := t.blocks.at[index].Load()
	var old, idle []ref
	wanted, next := t.wanted.Load(), lifeStamp(noEnd)
	b.page.nextEnd.Store(noEnd) // what comes from here on lowers it again
	for place := range uint32(blockSeries) {
		state := b.page.cells[place].state.Load()
		if state&live == 0 {
			continue
		}
		switch to := (ref{index<<blockBits | place, state}); {
		case t.expired(b, place, now):
			old = append(old, to)
		case int64(len(idle)) < wanted && b.idleFor(place, now) > yieldAfter:
			idle = append(idle, to)
		default:
			next = min(next, b.endOf(place, now))
			t.tidy(b, place, now)
		}
		if place%64 == 0 {
			pace.step()
		}
	}
	b.page.lookAt(next)
	t.evict(old, expiry, now)
	if n := t.evict(idle, yielding, now); n > 0 {
		t.wanted.Store(max(wanted-int64(n), 0))
	}
}

// tidy gives back what an idle series does not need.
func (t *Table) tidy(b *block, place uint32, now moment) {
	b.history.Lock()
	defer b.history.Unlock()
	c, body := &b.page.cells[place], b.body(place)
	oldest := t.oldestTick(now.tick)
	idle := c.past.stamp != 0 && c.past.stamp < oldest
	switch {
	case idle && body != nil && body.timer != nil && !body.rewritten:
		body.timer.forgetLocked()
	case body != nil && body.set != nil:
		if idle {
			body.set.forgetLocked()
		}
		body.set.mergeLocked(&t.epochs, oldest)
		body.set.renewLocked(oldest)
		t.weigh(body, body.set.bytesLocked())
	}
	c.past.shrink(t.notes, codingOf(b.page.kinds[place]), now.tick)
	if body != nil && body.fraction != nil {
		body.fraction.past.shrink(t.notes, wholeCoding, now.tick)
	}
}

// forgetNotes gives back the logs of a series.
func (t *Table) forgetNotes(c *cell, body *body) {
	c.past.forget(t.notes)
	if body != nil && body.fraction != nil {
		body.fraction.past.forget(t.notes)
	}
}

// sweepAliases removes aliases of one shard that lead to a series that is gone, or to an outdated refusal. Of a series that
// has as many as may be it removes one too: some may be of senders that are gone, and those in use are soon there again.
func (t *Table) sweepAliases() {
	e := &t.evictions
	e.shard = (e.shard + 1) % slotShards
	turn, refusals := t.turn.Load(), int64(0)
	gone := t.aliases.sweep(e.shard, func(target uint64) bool {
		if target&refusalBit != 0 {
			_, decided := targetRefusal(target)
			if decided != turn {
				refusals++
			}
			return decided != turn
		}
		to := targetRef(target)
		b, place := t.blocks.of(to.number)
		if b.page.cells[place].state.Load() != to.state {
			return true
		}
		full := b.series[place].aliases.Load() >= maxAliases
		if full {
			b.series[place].aliases.Add(^uint32(0))
		}
		return full
	})
	t.refusals.Add(-refusals)
	if len(gone) > 0 {
		e.stale = append(e.stale, staleAliases{e.shard, gone, t.epochs.Advance()})
	}
}

// evictAtOnce is how many series go under one hold of the lock.
const evictAtOnce = 256

// evict turns series dead and takes them out of the index: at once for readers. It returns how many went: those that
// expire or yield go only if they are still idle.
func (t *Table) evict(old []ref, why cause, now moment) (gone int) {
	pace := pace{time.Now()}
	for some := range slices.Chunk(old, evictAtOnce) {
		gone += t.evictSome(some, why, now)
		pace.step()
	}
	return gone
}

func (t *Table) evictSome(old []ref, why cause, now moment) int {
	t.evictions.mu.Lock()
	defer t.evictions.mu.Unlock()
	byEntry := map[*entry]int{}
	before := len(t.evictions.limbo)
	for _, r := range old {
		d, e := t.turnDead(r, why, now)
		if e == nil {
			continue
		}
		t.evictions.limbo = append(t.evictions.limbo, d)
		byEntry[e]++
	}
	for e, n := range byEntry {
		e.family.shard.mu.Lock()
		e.removeLocked(n, t.isLive)
		e.family.shard.mu.Unlock()
	}
	fresh := t.evictions.limbo[before:]
	if len(fresh) == 0 {
		return 0
	}
	t.turn.Add(1)
	epoch := t.epochs.Advance()
	for i := range fresh {
		fresh[i].epoch = epoch
	}
	return len(fresh)
}

// isLive reports whether a reference still means a live series.
func (t *Table) isLive(r ref) bool {
	b, place := t.blocks.of(r.number)
	return b.page.cells[place].state.Load() == r.state
}

// turnDead is the first step for one series. nil: it is not there any more, or not idle.
func (t *Table) turnDead(r ref, why cause, now moment) (departed, *entry) {
	b, place := t.blocks.of(r.number)
	b.history.Lock()
	defer b.history.Unlock()
	c, s := &b.page.cells[place], &b.series[place]
	if c.state.Load() != r.state {
		return departed{}, nil
	}
	if why == expiry && !t.expired(b, place, now) || why == yielding && b.idleFor(place, now) <= yieldAfter {
		return departed{}, nil
	}
	c.state.Store(r.state &^ live)
	b.unnamed.mark(place)
	b.renamed.Store(true)
	t.live.Add(-1)
	t.evicted.Add(1)
	t.graves.bury(s.entry, t.epitaph(b, place, why))
	t.evictions.object = s.entry.object()
	t.admission.Leave(&t.evictions.object, s.entry.family.key.name)
	d := departed{ref: r, cause: why, ended: now.tick}
	if b.page.kinds[place] == metric.Counter {
		d.whole, d.units = counterSum(b, place)
	}
	return d, s.entry
}

func (t *Table) epitaph(b *block, place uint32, why cause) grave {
	seen := b.page.cells[place].seen.Load()
	switch why {
	case deletion:
		return grave{seen, "deleted"}
	case objectEnd:
		return grave{seen, "when its object was deleted or finished"}
	case shedding:
		return grave{seen, "when a limit gave its place to another metric"}
	case vanishing:
		return grave{seen, "then whoever pushed it said that it has no value any more"}
	case yielding:
		return grave{seen, "yielded its place to newer series"}
	}
	ttl, _ := t.ttl(b, place)
	return grave{seen, fmt.Sprintf("expired after %s", metric.FormatWindow(ttl))}
}
