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
	t.eachTwinPlace(s, k, func(b *block, place uint32, from kind.Elsewhere) { f(b.handle(place), from) })
}

func (t *Table) eachTwinPlace(s *series, k metric.Kind, f func(b *block, place uint32, from kind.Elsewhere)) {
	for from, twins := range t.eachOrigin {
		form := from.identityOf(s)
		if to, there := from.lookUp(&form, k); there && !twins.hidden.has(to) {
			from.ifLive(to, func(b *block, place uint32) { f(b, place, t.elsewhere(from, &twins)) })
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

// hearOf adopts the state of one series, and the life of one with a lifetime that a client pushed, which may be over
// before the next sweep (keep).
func (t *Table) hearOf(b *block, place uint32, from kind.Elsewhere) {
	if b.series[place].entry == nil {
		return
	}
	b.history.Lock()
	n, some := kind.NewsLocked(b.handle(place), b.page.kinds[place], from)
	form := t.identityOf(&b.series[place])
	seen, ttl := b.seenAt(place, from), b.pushedTTL(place)
	b.history.Unlock()
	if !some && ttl == 0 {
		return
	}
	t.withSeries(&form, b.page.kinds[place], func(own *block, at uint32) {
		if some {
			kind.AdoptLocked(&t.Env, own.handle(at), &n, false)
		}
		if ttl != 0 {
			own.endWithLocked(at, ttl, seen)
			t.keepLocked(own, at, seen, t.Clock.Now())
		}
	})
}

// seenAt is when a series of another origin was seen, on the own lifetime clock.
func (b *block) seenAt(place uint32, from kind.Elsewhere) time.Duration {
	return window.LifeAt(b.page.cells[place].Seen.Load()) + time.Duration(from.Ahead)*time.Millisecond
}

// pushedTTL is the lifetime that a client pushed with a series, as the page holds it; 0: none. Forever is that of every
// object which a cluster watches, too.
func (b *block) pushedTTL(place uint32) uint32 {
	ttl := b.page.ttls[place].Load()
	if ttl == ttlGroup || ttl == ttlForever && !b.series[place].entry.External() {
		return 0
	}
	return ttl
}

// beginAsTwins gives a new series the lifetime that was pushed with its newest twin.
func (t *Table) beginAsTwins(b *block, place uint32) {
	newest := time.Duration(-1)
	t.eachTwinPlace(&b.series[place], b.page.kinds[place], func(twins *block, at uint32, from kind.Elsewhere) {
		if ttl, seen := twins.pushedTTL(at), twins.seenAt(at, from); ttl != 0 && seen > newest {
			newest = seen
			b.page.ttls[place].Store(ttl)
		}
	})
}

// endWithLocked gives a series the lifetime that was pushed with its twin, if that was seen later. What the client
// pushed before would come back otherwise when the twin ends.
func (b *block) endWithLocked(place, ttl uint32, seen time.Duration) {
	own := b.page.ttls[place].Load()
	if own == ttl || own == ttlGroup || b.page.dirty.Has(place) || window.LifeAt(b.page.cells[place].Seen.Load()) >= seen {
		return
	}
	if b.page.ttls[place].Store(ttl); b.page.mayEnd(place) {
		b.page.lookAt(window.StampOf(seen + ttlDuration(ttl)))
	}
	b.unsaved.Mark(place)
}

// keep has a series that is idle for most of its lifetime live on with its twins at other origins: what it counted
// before its client moved is a part of the client's totals and windows.
func (t *Table) keep(b *block, place uint32, now window.Moment) {
	ttl, mortal := t.ttl(b, place)
	if !mortal || t.others.Load() == nil || b.idleFor(place, now) < ttl-ttl/keptAfter {
		return
	}
	b.history.Lock()
	defer b.history.Unlock()
	var seen time.Duration
	t.eachTwinPlace(&b.series[place], b.page.kinds[place], func(twins *block, at uint32, from kind.Elsewhere) {
		seen = max(seen, twins.seenAt(at, from))
	})
	t.keepLocked(b, place, seen, now)
}

const (
	// keptAfter is the part of a lifetime by which the newest sample of a twin is later than that of a series before
	// the series lives on by it, so that not each sample there is a change here.
	keptAfter = 3
	// lastSweeps of a lifetime take any later sample: there may be none until it is over.
	lastSweeps = 2 * time.Minute
)

// keepLocked has a series live on with its twin, which was seen at a moment of the own lifetime clock.
func (t *Table) keepLocked(b *block, place uint32, seen time.Duration, now window.Moment) {
	ttl, mortal := t.ttl(b, place)
	own, stamp := b.page.cells[place].Seen.Load(), window.StampOf(min(max(seen, 0), now.Life))
	later := window.LifeAt(stamp) - window.LifeAt(own)
	if !mortal || b.page.dirty.Has(place) || later <= 0 || later < ttl/keptAfter && b.idleFor(place, now) < ttl-lastSweeps {
		return
	}
	b.page.cells[place].Seen.Store(stamp)
	b.unsaved.Mark(place)
}
