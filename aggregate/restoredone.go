package aggregate

import (
	"cmp"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// RestoreDone files the restored series in the index. It runs after all blocks: a crash between the
// writes of two blocks may leave two series of one identity, or a metric in two kinds, and then
// only the younger one is kept. It drops expired series and makes free places usable.
func (t *Table) RestoreDone() error {
	now := t.Clock.Now()
	restored := t.restored()
	slices.SortFunc(restored, func(a, b restoredSeries) int { return a.age.compare(b.age) })
	for _, r := range restored {
		t.fileRestored(r.Ref, now)
	}
	t.freePlaces()
	t.restoreFrames()
	return nil
}

// Begin begins receiving time: until then, since the former process ended, nothing was received. Call it when
// the receivers open, after a restore that must be complete.
func (t *Table) Begin() {
	t.Clock.Begin()
	t.Logs.Resumed(t.Clock)
}

type restoredSeries struct {
	lookup.Ref
	age age
}

// age orders series of one identity or object.
type age struct{ born, seen, number uint32 }

func (t *Table) ageOf(to lookup.Ref) age {
	b, place := t.blocks.of(to.Number)
	return age{b.series[place].born, b.page.cells[place].Seen.Load(), to.Number}
}

// compare is negative if a is younger than b.
func (a age) compare(b age) int {
	return cmp.Or(cmp.Compare(b.born, a.born), cmp.Compare(b.seen, a.seen), cmp.Compare(a.number, b.number))
}

func (t *Table) restored() (all []restoredSeries) {
	for i := range t.blocks.made.Load() {
		b := t.blocks.at[i].Load()
		for place := range uint32(kind.BlockSeries) {
			if c := &b.page.cells[place]; c.State.Load()&kind.Live != 0 {
				to := lookup.Ref{Number: i<<kind.BlockBits | place, State: c.State.Load()}
				all = append(all, restoredSeries{to, t.ageOf(to)})
			}
		}
	}
	return all
}

// fileRestored files one series in the index. It drops the series if it has expired, or if a
// younger one conflicts with it.
func (t *Table) fileRestored(to lookup.Ref, now window.Moment) {
	b, place := t.blocks.of(to.Number)
	s := &b.series[place]
	if t.hasExpired(b, place, now) {
		t.removals.note(s.entry, t.removalOf(b, place, expired))
		t.dropRestored(b, place)
		return
	}
	if !t.file(to, false) {
		t.dropRestored(b, place)
		return
	}
	t.accountRestored(b, place)
	b.page.expectEnd(place, now)
}

// file files a restored series in the index, and reports it to the observer if announce is set. It
// returns false if a series of the identity is filed already, or the metric of the object has
// another kind.
func (t *Table) file(to lookup.Ref, announce bool) bool {
	b, place := t.blocks.of(to.Number)
	s := &b.series[place]
	form := t.identityOf(s)
	shard := t.canon.Shard(form.Sum)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	filed, lock := t.index.Enter(&form, s.entry.Kind)
	defer lock.Mu.Unlock()
	if _, _, twin := t.filed(&form, s.entry.Kind); twin || filed.Kind != s.entry.Kind {
		return false
	}
	s.entry = filed
	s.setLabels(lock.Shared(&t.index.Hash, s.packed()))
	filed.AddLocked(to)
	t.admission.Enter(lock.ObjectOf(filed), filed.Family.Key.Name, s.labels(), s.born)
	shard.AddLocked(form.Sum, to.Number+lookup.FirstNumber)
	t.live.Add(1)
	t.countNames(s, 1)
	if announce {
		t.observer.SeriesCreated(lock.ObjectOf(filed), filed.Family.Key.Name, filed.Kind, s.labels())
	}
	return true
}

// accountRestored accounts for the memory of a restored series and, for a counter, its value.
func (t *Table) accountRestored(b *block, place uint32) {
	k := b.page.kinds[place]
	kind.Of(k).Weigh(&t.Env, b.handle(place))
	if k == metric.Counter {
		t.sumsMu.Lock()
		defer t.sumsMu.Unlock()
		t.closed.Add(kind.Held(b.handle(place)))
	}
}

// dropRestored removes a restored series that no writer or reader has found yet. The next delta
// saves its death.
func (t *Table) dropRestored(b *block, place uint32) {
	c := &b.page.cells[place]
	state := c.State.Load()
	if state&kind.Live == 0 {
		return
	}
	t.emptyPlaceLocked(b, place)
	c.State.Store(state &^ kind.Live)
	b.unnamed.Mark(place)
	b.renamed.Store(true)
}

// freePlaces puts all unused places on the free list.
func (t *Table) freePlaces() {
	made := t.blocks.made.Load()
	for i := range made {
		b := t.blocks.at[i].Load()
		for place := range uint32(kind.BlockSeries) {
			if b.page.cells[place].State.Load()&kind.Live == 0 {
				t.blocks.give(i<<kind.BlockBits | place)
			}
		}
	}
	t.blocks.mu.Lock()
	defer t.blocks.mu.Unlock()
	t.blocks.next = made << kind.BlockBits
}
