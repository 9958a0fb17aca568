package aggregate

import (
	"fmt"
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

	// The rest belongs to the roller.
	stale  []staleAliases
	cursor uint32 // the block that the sweep is at
	shard  int    // the shard of aliases that the sweep is at
}

type departed struct {
	ref
	epoch  uint64
	whole  int64 // what a counter held when it turned dead
	units  uint64
	revive bool   // what comes late makes a new series
	ended  uint32 // tick
}

type staleAliases struct {
	shard   int
	numbers []uint32
	epoch   uint64
}

// addPendingLocked adds what counters in limbo hold.
func (e *evictions) addPendingLocked(t *Table, to *sum) {
	for _, d := range e.limbo {
		b, place := t.blocks.of(d.number)
		if b.series[place].entry.kind == metric.Counter {
			to.add(counterSum(b, place))
		}
	}
}

// sweepTurns is over how many half ticks one sweep over all series is spread.
const sweepTurns = 120

// sweep goes over a part of the series and the aliases, and finishes evictions that are due.
func (t *Table) sweep() {
	now, pace := t.clock.now(), pace{time.Now()}
	made := t.blocks.made.Load()
	for range made/sweepTurns + 1 {
		if made == 0 {
			break
		}
		t.evictions.cursor = (t.evictions.cursor + 1) % made
		t.sweepBlock(t.evictions.cursor, now, &pace)
	}
	for range slotShards/sweepTurns + 1 {
		t.sweepAliases()
		pace.step()
	}
	t.finish()
}

func (t *Table) sweepBlock(index uint32, now moment, pace *pace) {
	b := t.blocks.at[index].Load()
	var old []ref
	for place := range uint32(blockSeries) {
		state := b.page.cells[place].state.Load()
		if state&live == 0 {
			continue
		}
		if t.expired(b, place, now) {
			old = append(old, ref{index<<blockBits | place, state})
			continue
		}
		t.tidy(b, place, now)
		if place%64 == 0 {
			pace.step()
		}
	}
	t.evict(old, true, now)
}

// tidy gives back what an idle series does not need.
func (t *Table) tidy(b *block, place uint32, now moment) {
	b.history.Lock()
	defer b.history.Unlock()
	c, body := &b.page.cells[place], b.body(place)
	oldest := t.oldestTick(now.tick)
	if body != nil && body.set != nil {
		body.set.mergeLocked(&t.epochs, oldest)
		body.set.shrinkLocked(oldest)
		t.weighLocked(body, body.set.bytesLocked())
	}
	if c.past.stamp == 0 || c.past.stamp >= oldest {
		return
	}
	c.past.forget(t.rings)
	if body != nil && body.fraction != nil {
		body.fraction.past.forget(t.rings)
	}
}

// sweepAliases removes aliases of one shard that lead to a series that is gone, or to an outdated refusal.
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
		return b.page.cells[place].state.Load() != to.state
	})
	t.refusals.Add(-refusals)
	if len(gone) > 0 {
		e.stale = append(e.stale, staleAliases{e.shard, gone, t.epochs.advance()})
	}
}

// evict turns series dead and takes them out of the index: at once for readers. With idle, only those that are
// still idle go, and what comes late for one makes a new series; without, late samples count as before the end.
func (t *Table) evict(old []ref, idle bool, now moment) (gone int) {
	t.evictions.mu.Lock()
	defer t.evictions.mu.Unlock()
	byEntry := map[*entry]map[ref]struct{}{}
	left := len(t.evictions.limbo)
	for _, r := range old {
		d, e := t.turnDead(r, idle, now)
		if e == nil {
			continue
		}
		t.evictions.limbo = append(t.evictions.limbo, d)
		if byEntry[e] == nil {
			byEntry[e] = map[ref]struct{}{}
		}
		byEntry[e][r] = struct{}{}
	}
	for e, refs := range byEntry {
		e.family.shard.mu.Lock()
		e.removeLocked(refs)
		e.family.shard.mu.Unlock()
	}
	fresh := t.evictions.limbo[left:]
	if len(fresh) == 0 {
		return 0
	}
	t.turn.Add(1)
	epoch := t.epochs.advance()
	for i := range fresh {
		fresh[i].epoch = epoch
	}
	return len(fresh)
}

// turnDead is the first step for one series. nil: it is not there any more, or not idle.
func (t *Table) turnDead(r ref, idle bool, now moment) (departed, *entry) {
	b, place := t.blocks.of(r.number)
	b.history.Lock()
	defer b.history.Unlock()
	c, s := &b.page.cells[place], &b.series[place]
	if c.state.Load() != r.state || idle && !t.expired(b, place, now) {
		return departed{}, nil
	}
	c.state.Store(r.state &^ live)
	b.unnamed.mark(place)
	b.renamed.Store(true)
	t.live.Add(-1)
	t.evicted.Add(1)
	t.graves.bury(s.entry.family.key, t.epitaph(s, c.seen.Load(), idle))
	d := departed{ref: r, revive: idle, ended: now.tick}
	if s.entry.kind == metric.Counter {
		d.whole, d.units = counterSum(b, place)
	}
	return d, s.entry
}

func (t *Table) epitaph(s *series, seen uint32, idle bool) grave {
	if !idle {
		return grave{seen, "deleted"}
	}
	ttl, _ := t.ttl(s)
	return grave{seen, fmt.Sprintf("expired after %s", metric.FormatWindow(ttl))}
}

// finish takes the second step for all that every writer has passed.
func (t *Table) finish() {
	e := &t.evictions
	passed := t.epochs.passed()
	for len(e.stale) > 0 && e.stale[0].epoch <= passed {
		t.aliases.recycle(e.stale[0].shard, e.stale[0].numbers)
		e.stale = e.stale[1:]
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.limbo) == 0 || e.limbo[0].epoch > passed {
		return
	}
	w := t.NewWriter()
	defer w.Close()
	due := 0
	for due < len(e.limbo) && e.limbo[due].epoch <= passed {
		t.buryLocked(e.limbo[due], w)
		due++
	}
	e.limbo = append(e.limbo[:0], e.limbo[due:]...)
}

// buryLocked is the second step for one series: the place is free afterwards.
func (t *Table) buryLocked(d departed, w *Writer) {
	b, place := t.blocks.of(d.number)
	s, c := &b.series[place], &b.page.cells[place]
	late := d.revive && b.page.dirty.has(place)
	if late {
		late = t.succeed(d, b, place, w)
	}
	t.retire(d, b, place, late)

	shard := t.canon.shard(s.hash)
	shard.mu.Lock()
	shard.removeLocked(s.hash, d.number+firstNumber)
	shard.mu.Unlock()

	b.history.Lock()
	bit := uint64(1) << (place % 64)
	b.page.dirty[place/64].And(^bit)
	b.unsaved[place/64].And(^bit)
	c.past.forget(t.rings)
	if body := b.body(place); body != nil {
		if body.fraction != nil {
			body.fraction.past.forget(t.rings)
		}
		t.weighLocked(body, 0)
		b.bodies.Load()[place].Store(nil)
	}
	t.nameBytes.Add(-s.nameBytes())
	s.entry, s.labels = nil, metric.Labels{}
	b.history.Unlock()
	t.blocks.give(d.number)
}

// retire adds to retired what a counter held: all of it, or what it held when it turned dead if the rest moved on.
func (t *Table) retire(d departed, b *block, place uint32, late bool) {
	if b.series[place].entry.kind != metric.Counter {
		return
	}
	whole, units := counterSum(b, place)
	if late {
		whole, units = d.whole, d.units
	}
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	t.retired.add(whole, units)
}

// succeed hands what came after a series had turned dead to a series of the same identity, made where there is none.
// False: there could be none.
func (t *Table) succeed(d departed, b *block, place uint32, w *Writer) bool {
	s := &b.series[place]
	e := s.entry
	form := canonicalForm{object: e.object, name: e.family.key.name, labels: s.labels.Packed(), hash: s.hash}
	to, refused := t.create(&form, &metric.Sample{Kind: e.kind}, w.now)
	if refused != metric.Applied {
		return false
	}
	heir, at := t.blocks.of(to.number)
	switch e.kind {
	case metric.Counter:
		whole, units := counterSum(b, place)
		heir.page.cells[at].add(whole - d.whole)
		if units != d.units {
			heir.makeBody(at, newFraction).fraction.units.Add(int64(units - d.units))
		}
	case metric.Gauge:
		if v, set := gaugeBits(b, place); set {
			heir.page.cells[at].value.CompareAndSwap(gaugeUnset, v)
		}
	case metric.Timer:
		heir.body(at).timer.takeOver(b.body(place).timer)
	case metric.Set:
		b.body(place).set.exact.Load().each(func(hash uint64, tick uint32) {
			if tick >= d.ended {
				heir.body(at).set.insert(hash, tick, always)
			}
		})
	}
	heir.series[at].ttl.Store(s.ttl.Load())
	heir.page.dirty.mark(at)
	return true
}
