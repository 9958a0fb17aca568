package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// reclaim takes the second step for all tombstones that are older than every writer's last
// quiescent state.
func (t *Table) reclaim(pace *pace) {
	e := &t.evictions
	passed := t.Epochs.Quiesced()
	for len(e.stale) > 0 && e.stale[0].epoch <= passed {
		t.aliases.Recycle(e.stale[0].shard, e.stale[0].numbers)
		e.stale = e.stale[1:]
	}
	if !e.hasDue(passed) {
		return
	}
	w := t.NewWriter()
	defer w.Close()
	for t.reclaimNext(passed, w) {
		pace.step()
	}
}

// hasDue reports whether the second step for the oldest tombstone is due.
func (e *evictions) hasDue(passed uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hasDueLocked(passed)
}

func (e *evictions) hasDueLocked(passed uint64) bool {
	return len(e.tombstones) > 0 && e.tombstones[0].epoch <= passed
}

// reclaimNext takes the second step for the oldest tombstone, if it is due.
func (t *Table) reclaimNext(passed uint64, w *Writer) bool {
	e := &t.evictions
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.hasDueLocked(passed) {
		return false
	}
	t.reclaimLocked(e.tombstones[0], w)
	e.tombstones = e.tombstones[1:]
	if len(e.tombstones) == 0 {
		e.tombstones = nil
		t.retryEpoch.Add(1) // places and memory are free again
	}
	return true
}

// reclaimLocked is the second step for one series: it frees the place.
func (t *Table) reclaimLocked(d tombstone, w *Writer) {
	b, place := t.blocks.of(d.Number)
	s := &b.series[place]
	late := d.cause.mayHaveSuccessor() && b.page.dirty.Has(place)
	if late {
		late = t.handOver(d, b, place, w)
	}
	t.retire(d, b, place, late)

	hash := t.identityOf(s).Sum
	shard := t.canon.Shard(hash)
	shard.Mu.Lock()
	shard.RemoveLocked(hash, d.Number+lookup.FirstNumber)
	shard.Mu.Unlock()

	b.history.Lock()
	t.countNames(s, -1)
	t.emptyPlaceLocked(b, place)
	b.history.Unlock()
	t.blocks.give(d.Number)
}

// emptyPlaceLocked frees the memory of a series that no writer or reader can find any more.
func (t *Table) emptyPlaceLocked(b *block, place uint32) {
	s := &b.series[place]
	bit := uint64(1) << (place % 64)
	b.page.dirty[place/64].And(^bit)
	b.unsaved[place/64].And(^bit)
	t.freeValueLocked(b, place)
	s.entry, s.first, s.length = nil, nil, 0
}

// freeValueLocked frees the memory of a series' value and history.
func (t *Table) freeValueLocked(b *block, place uint32) {
	t.FreeLogs(b.handle(place))
	body := b.body(place)
	if body == nil {
		return
	}
	t.Weigh(body, 0)
	if body.Timer != nil {
		t.Timers.Drop(&b.page.cells[place])
	}
	b.bodies.Drop(place)
}

// retire adds the value of a counter to retired: all of it, or the value at its removal if late
// samples moved to a successor.
func (t *Table) retire(d tombstone, b *block, place uint32, late bool) {
	if b.page.kinds[place] != metric.Counter {
		return
	}
	whole, units := kind.Held(b.handle(place))
	if late {
		whole, units = d.Whole, d.Units
	}
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	t.retired.Add(whole, units)
}

// handOver hands late samples of a removed series to a series of the same identity, creating one if
// needed. It returns false if there can be none.
func (t *Table) handOver(d tombstone, b *block, place uint32, w *Writer) bool {
	s := &b.series[place]
	e := s.entry
	form := t.identityOf(s)
	to, rejected := t.create(&form, &metric.Sample{Kind: e.Kind}, w.Now)
	if rejected != metric.Applied {
		return false
	}
	heir, at := t.blocks.of(to.Number)
	heir.history.Lock() // keeps the halves of a timer from being swapped
	inherited := kind.Of(e.Kind).Inherit(&t.Env, b.handle(place), heir.handle(at), d.Remains)
	heir.history.Unlock()
	if !inherited {
		return false
	}
	heir.page.ttls[at].CompareAndSwap(0, b.page.ttls[place].Load())
	heir.page.dirty.Mark(at)
	heir.page.expectEnd(at, w.Now)
	return true
}
