package aggregate

import (
	"iter"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// A client's next sample may arrive at another replica than the one before. Its running total and
// its gauge go on there from the newest state that any origin has. The table looks for such twins
// at other origins when a running total or a gauge with shifts begins, and hears of their changes
// with each delta, never per sample.
//
// Lock order: a lock of the table may be held while the lock of another origin's table is taken,
// never the other way round.

// SetTwins sets the tables of the other origins. Any goroutine may call it at any time. The table
// ranges over them with a history lock held.
func (t *Table) SetTwins(others iter.Seq[*Table]) { t.others.Store(&others) }

// eachTwin calls f for each live series of an identity and kind at other origins, under the history
// lock of the twin's block.
func (t *Table) eachTwin(s *series, k metric.Kind, f func(from *Table, twin kind.Series)) {
	others := t.others.Load()
	if others == nil {
		return
	}
	for from := range *others {
		form := from.identityOf(s)
		from.withSeries(&form, k, func(b *block, place uint32) { f(from, b.handle(place)) })
	}
}

// withSeries calls f for the live series of an identity and kind, if there is one, under the history
// lock of its block.
func (t *Table) withSeries(f *index.Identity, k metric.Kind, do func(b *block, place uint32)) {
	to, there := t.lookUp(f, k)
	if !there {
		return
	}
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() == to.State {
		do(b, place)
	}
}

// lookUp is filed for goroutines that are no writers.
func (t *Table) lookUp(f *index.Identity, k metric.Kind) (lookup.Ref, bool) {
	shard := t.canon.Shard(f.Sum)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	to, refused, there := t.filed(f, k)
	return to, there && refused == metric.Applied
}

// aheadOf returns the milliseconds to add to stamps of another table.
func (t *Table) aheadOf(from *Table) int64 {
	return from.Clock.Now().Epoch.Sub(t.Clock.Now().Epoch).Milliseconds()
}

// twinsOfGauge is kind.Env.EachTwin for gauges.
func (t *Table) twinsOfGauge(h kind.Series, f func(twin kind.Series, ahead int64)) {
	b := t.blocks.at[t.blocks.indexOf(h.Cell)].Load()
	t.eachTwin(&b.series[h.Place], metric.Gauge, func(from *Table, twin kind.Series) { f(twin, t.aheadOf(from)) })
}

// indexOf returns the index of the block that a cell belongs to.
func (d *blocks) indexOf(c *kind.Cell) uint32 {
	return uint32((uintptr(unsafe.Pointer(c)) - uintptr(d.pages.Base)) / uintptr(pageBytes))
}

// continueLocked makes a series whose first running total is about to come continue from its twins.
func (t *Table) continueLocked(b *block, place uint32) {
	h, k := b.handle(place), b.page.kinds[place]
	if !kind.UnstartedLocked(h) {
		return
	}
	var all []kind.News
	t.eachTwin(&b.series[place], k, func(from *Table, twin kind.Series) {
		if n, some := kind.NewsLocked(twin, k, t.aheadOf(from)); some {
			all = append(all, n)
		}
	})
	for i := range all {
		kind.AdoptLocked(&t.Env, h, &all[i], true)
	}
}

// hear adopts the states of series at some places of another origin's block, if the own table has
// their twins. Only the goroutine that changes that table calls it, after the change and without a
// lock of that table.
func (t *Table) hear(from *Table, block uint32, places []uint32) {
	ahead := t.aheadOf(from)
	t.RaiseStamp(from.NewestStamp.Load(), ahead)
	b := from.blocks.at[block].Load()
	for _, place := range places {
		t.hearOf(b, place, ahead)
	}
}

func (t *Table) hearOf(b *block, place uint32, ahead int64) {
	if b.series[place].entry == nil {
		return
	}
	b.history.Lock()
	n, some := kind.NewsLocked(b.handle(place), b.page.kinds[place], ahead)
	form := t.identityOf(&b.series[place])
	b.history.Unlock()
	if !some {
		return
	}
	t.withSeries(&form, b.page.kinds[place], func(own *block, at uint32) { kind.AdoptLocked(&t.Env, own.handle(at), &n, false) })
}
