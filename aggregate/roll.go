package aggregate

import (
	"context"
	"math/bits"
	"runtime"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Run is the roller. Until ctx ends it rolls twice a tick, or twice a second, unless the store has
// just done so, and sweeps a part of all series for expired ones.
func (t *Table) Run(ctx context.Context) error {
	half := min(t.Clock.Tick/2, rollEvery)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			t.Roll()
			return nil
		case <-timer.C:
			t.Clock.FollowWall()
			t.rollBefore(half)
			t.sweep()
			// Until the next half tick: the first roll after the end of a tick closes the tick.
			timer.Reset(half - t.Clock.Now().At%half)
		}
	}
}

// rollEvery bounds the time until a sample is recorded, however long a tick is. If the store rolls
// too, a sample may wait twice as long. The sweep runs at the same interval.
const rollEvery = 500 * time.Millisecond

// slice is the working time after which the roller yields the processor: a receiver that shares it
// must be back before its socket's buffer is full.
const slice = 500 * time.Microsecond

// pace yields the processor at the end of each slice.
type pace struct{ begun time.Time }

func (p *pace) step() {
	if now := time.Now(); now.Sub(p.begun) > slice {
		runtime.Gosched()
		p.begun = time.Now()
	}
}

// Roll records the values of all dirty series.
func (t *Table) Roll() {
	now, pace := t.Clock.Now(), pace{time.Now()}
	for i := range t.blocks.made.Load() {
		t.rollBlock(t.blocks.at[i].Load(), now, &pace)
	}
}

// rollBefore is Roll for the roller. It skips blocks that were rolled in this tick less than ago
// before. Blocks with pushed lifetimes are never skipped, so their stamps are late by one roll at
// most.
func (t *Table) rollBefore(ago time.Duration) {
	now, pace := t.Clock.Now(), pace{time.Now()}
	for i := range t.blocks.made.Load() {
		if b := t.blocks.at[i].Load(); b.page.nextEnd.Load() != noEnd || !b.wasRolled(now, ago) {
			t.rollBlock(b, now, &pace)
		}
	}
}

func (b *block) wasRolled(now window.Moment, ago time.Duration) bool {
	b.history.Lock()
	defer b.history.Unlock()
	return b.rolled >= now.Tick && now.At-b.rolledAt < ago
}

// rollBlock records the dirty series of one block.
func (t *Table) rollBlock(b *block, now window.Moment, pace *pace) {
	for word := range kind.BlockWords {
		if b.page.dirty[word].Load() == 0 {
			continue
		}
		b.history.Lock()
		t.rollWordLocked(b, word, now)
		b.history.Unlock()
		pace.step()
	}
	b.history.Lock()
	b.rolled, b.rolledAt = max(b.rolled, now.Tick), max(b.rolledAt, now.At)
	b.history.Unlock()
}

// tickLocked is the tick under which a series is recorded. The first roll in a tick closes the
// previous tick, in which nearly all samples that it finds came. Later rolls record under the tick
// in progress, for readers and the store. Ticks never decrease, even if two rolls overlap.
func (b *block) tickLocked(place uint32, now window.Moment) uint32 {
	tick := now.Tick
	if b.rolled < tick {
		tick--
	}
	return max(tick, b.page.cells[place].History.Stamp)
}

// rollWordLocked records the dirty series among 64. It clears the dirty bits before it reads the
// values. A series with a sample in between is marked again and recorded twice, which is harmless.
// The other order would miss that sample until the next one.
func (t *Table) rollWordLocked(b *block, word int, now window.Moment) {
	set := b.page.dirty[word].Swap(0)
	if set == 0 {
		return
	}
	b.recorded[word].Add(1)
	t.prefetchLocked(b, word, set)
	for ; set != 0; set &= set - 1 {
		place := uint32(word*64 + bits.TrailingZeros64(set))
		c := &b.page.cells[place]
		if c.State.Load()&kind.Live == 0 {
			// A late sample for a removed series: reclaim.go checks the dirty bit.
			b.page.dirty.Mark(place)
			continue
		}
		t.rollSeriesLocked(b, place, b.tickLocked(place, now))
		c.See(now)
		b.unsaved.Mark(place)
	}
}

// manyOf64 is the number of changed series among 64 from which on requests bring nothing: the processor prefetches itself.
const manyOf64 = 32

// prefetchLocked requests the cells and logs of a set of 64 series. Where few of many series have changed, each is a
// cache miss, and these overlap.
func (t *Table) prefetchLocked(b *block, word int, set uint64) {
	if bits.OnesCount64(set) >= manyOf64 {
		return
	}
	cells := b.page.cells[word*64:]
	var ahead [manyOf64]uintptr
	n := 0
	for rest := set; rest != 0; rest &= rest - 1 {
		ahead[n] = uintptr(unsafe.Pointer(&cells[bits.TrailingZeros64(rest)]))
		n++
	}
	memory.Prefetch(ahead[:n])
	n = 0
	for rest := set; rest != 0; rest &= rest - 1 {
		if log := cells[bits.TrailingZeros64(rest)].History.Address(t.Logs); log != 0 {
			ahead[n] = log
			n++
		}
	}
	memory.Prefetch(ahead[:n])
}

// rollSeriesLocked records a series' value under a tick.
func (t *Table) rollSeriesLocked(b *block, place, tick uint32) {
	kind.Of(b.page.kinds[place]).RecordLocked(&t.Env, b.handle(place), tick)
}
