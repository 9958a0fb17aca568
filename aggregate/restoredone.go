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
	slices.SortFunc(restored, func(a, b restoredSeries) int {
		return cmp.Or(cmp.Compare(b.born, a.born), cmp.Compare(b.seen, a.seen), cmp.Compare(a.Number, b.Number))
	})
	for _, one := range restored {
		t.fileRestored(one.Ref, now)
	}
	t.freePlaces()
	return nil
}

type restoredSeries struct {
	lookup.Ref
	born, seen uint32
}

func (t *Table) restored() (all []restoredSeries) {
	for i := range t.blocks.made.Load() {
		b := t.blocks.at[i].Load()
		for place := range uint32(kind.BlockSeries) {
			if c := &b.page.cells[place]; c.State.Load()&kind.Live != 0 {
				to := lookup.Ref{Number: i<<kind.BlockBits | place, State: c.State.Load()}
				all = append(all, restoredSeries{to, b.series[place].born, c.Seen.Load()})
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
	e := s.entry
	form := t.identityOf(s)
	shard := t.canon.Shard(form.Sum)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	filed, lock := t.index.Enter(&form, e.Kind)
	defer lock.Mu.Unlock()
	if _, _, twin := t.filed(&form, e.Kind); twin || filed.Kind != e.Kind {
		t.dropRestored(b, place)
		return
	}
	s.entry = filed
	filed.AddLocked(to)
	t.admission.Enter(lock.ObjectOf(filed), filed.Family.Key.Name, s.labels(), s.born)
	s.setLabels(lock.Shared(&t.index.Hash, s.packed()))
	shard.AddLocked(form.Sum, to.Number+lookup.FirstNumber)
	t.live.Add(1)
	t.nameBytes.Add(s.nameBytes())
	t.accountRestored(b, place)
	b.page.expectEnd(place, now)
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
