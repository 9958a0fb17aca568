package aggregate

import (
	"iter"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A client's next sample may arrive at another replica than the one before. Its running total and
// its gauge go on there from the newest state that any origin has. The table looks for such twins
// at other origins when a running total or a gauge with shifts begins, and hears of their changes
// with each delta, never per sample.
//
// Lock order: a lock of the table may be held while the lock of another origin's table is taken,
// never the other way round.

// Twins are the series of another origin, as the table finds those of its own series among them.
type Twins struct {
	First  bool         // the origin's name sorts before the own one
	hidden hiddenSeries // deleted here; what they had is nobody's
}

// SetTwins sets the tables of the other origins. Any goroutine may call it at any time. The table ranges
// over them with a history lock held.
func (t *Table) SetTwins(others iter.Seq2[*Table, Twins]) { t.others.Store(&others) }

// eachOrigin yields the tables of the other origins.
func (t *Table) eachOrigin(yield func(*Table, Twins) bool) {
	if others := t.others.Load(); others != nil {
		(*others)(yield)
	}
}

// elsewhere describes another origin.
func (t *Table) elsewhere(table *Table, twins *Twins) kind.Elsewhere {
	return kind.Elsewhere{Ahead: t.aheadOf(table), First: twins.First}
}

// eachTwin calls f for each live series of an identity and kind at other origins, under the history
// lock of the twin's block.
func (t *Table) eachTwin(s *series, k metric.Kind, f func(twin kind.Series, from kind.Elsewhere)) {
	for from, twins := range t.eachOrigin {
		form := from.identityOf(s)
		if to, there := from.lookUp(&form, k); there && !twins.hidden.has(to) {
			from.ifLive(to, func(b *block, place uint32) { f(b.handle(place), t.elsewhere(from, &twins)) })
		}
	}
}

// withSeries calls f for the live series of an identity and kind, if there is one, under the
// history lock of its block.
func (t *Table) withSeries(f *index.Identity, k metric.Kind, do func(b *block, place uint32)) {
	if to, there := t.lookUp(f, k); there {
		t.ifLive(to, do)
	}
}

// ifLive calls do for a series that still lives, under the history lock of its block.
func (t *Table) ifLive(to lookup.Ref, do func(b *block, place uint32)) {
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
	to, rejected, there := t.filed(f, k)
	return to, there && rejected == metric.Applied
}

// twinsOfGauge is kind.Env.EachTwin for gauges.
func (t *Table) twinsOfGauge(h kind.Series, f func(twin kind.Series, from kind.Elsewhere)) {
	b := t.blocks.at[t.blocks.indexOf(h.Cell)].Load()
	t.eachTwin(&b.series[h.Place], metric.Gauge, f)
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
	t.eachTwin(&b.series[place], k, func(twin kind.Series, from kind.Elsewhere) {
		if n, some := kind.NewsLocked(twin, k, from); some {
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
func (t *Table) hear(table *Table, block uint32, places []uint32) {
	twins := t.twinsIn(table)
	at := t.elsewhere(table, &twins)
	t.RaiseStamp(table.NewestStamp.Load(), at.Ahead)
	b := table.blocks.at[block].Load()
	for _, place := range places {
		to := lookup.Ref{Number: block<<kind.BlockBits | place, State: b.page.cells[place].State.Load()}
		if !twins.hidden.has(to) {
			t.hearOf(b, place, at)
		}
	}
}

// twinsIn returns the series of another origin. An origin that is not among the others yet sorts after the
// own one.
func (t *Table) twinsIn(table *Table) Twins {
	for from, twins := range t.eachOrigin {
		if from == table {
			return twins
		}
	}
	return Twins{}
}

// aheadOf returns the milliseconds to add to stamps of another table.
func (t *Table) aheadOf(table *Table) int64 {
	return table.Clock.Now().Epoch.Sub(t.Clock.Now().Epoch).Milliseconds()
}

func (t *Table) hearOf(b *block, place uint32, from kind.Elsewhere) {
	if b.series[place].entry == nil {
		return
	}
	b.history.Lock()
	n, some := kind.NewsLocked(b.handle(place), b.page.kinds[place], from)
	form := t.identityOf(&b.series[place])
	seen, ends := window.LifeAt(b.page.cells[place].Seen.Load()), b.page.mayEnd(place)
	b.history.Unlock()
	if !some && !ends {
		return
	}
	t.withSeries(&form, b.page.kinds[place], func(own *block, at uint32) {
		if some {
			kind.AdoptLocked(&t.Env, own.handle(at), &n, false)
		}
		if ends {
			own.keepLocked(at, seen+time.Duration(from.Ahead)*time.Millisecond, t.Clock.Now())
		}
	})
}
