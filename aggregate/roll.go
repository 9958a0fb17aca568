package aggregate

import (
	"context"
	"math/bits"
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Run turns the windows until ctx ends: twice a tick, or twice a second, it notes the values of the series that were touched, where
// the store has not done so just before, and goes over a part of all series to let go of those that have outlived their time.
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
			// On to the next half tick. The first roll after a tick's end is the one that closes it.
			timer.Reset(half - t.Clock.Now().At%half)
		}
	}
}

// rollEvery bounds how long what came waits for the roller, however long a tick is; where the store rolls, it may be twice that. The
// sweep keeps the same pace.
const rollEvery = 500 * time.Millisecond

// slice is how long the roller works before it lets others have the processor: a receiver that shares it must be
// back at its socket before the socket's buffer is full.
const slice = 500 * time.Microsecond

// pace yields the processor whenever a slice is over.
type pace struct{ begun time.Time }

func (p *pace) step() {
	if now := time.Now(); now.Sub(p.begun) > slice {
		runtime.Gosched()
		p.begun = time.Now()
	}
}

// Roll notes the values of all series that were touched since the last roll.
func (t *Table) Roll() {
	now, pace := t.Clock.Now(), pace{time.Now()}
	for i := range t.blocks.made.Load() {
		t.rollBlock(t.blocks.at[i].Load(), now, &pace)
	}
}

// rollBefore is Roll for the roller, which leaves out what was rolled in this tick, within the time given. What has a time to
// live of its own is never left out: its stamps are late by no more than a roll.
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

// rollBlock notes what was touched in one block.
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

// tickLocked is the tick to note a series' value under. The first roll in a tick closes the one before: what it finds came,
// but for the moment since, in that. Later ones note under the tick in progress, for readers and the store. Ticks
// never go back, not even when two rolls overlap.
func (b *block) tickLocked(place uint32, now window.Moment) uint32 {
	tick := now.Tick
	if b.rolled < tick {
		tick--
	}
	return max(tick, b.page.cells[place].History.Stamp)
}

// rollWordLocked unmarks first and reads then: what comes in between is marked again, and noted twice, which is
// harmless; the other order would lose it until its series is touched again.
func (t *Table) rollWordLocked(b *block, word int, now window.Moment) {
	for set := b.page.dirty[word].Swap(0); set != 0; set &= set - 1 {
		place := uint32(word*64 + bits.TrailingZeros64(set))
		c := &b.page.cells[place]
		if c.State.Load()&kind.Live == 0 {
			// It came late for a series that is about to go: evict.go looks at the mark.
			b.page.dirty.Mark(place)
			continue
		}
		t.rollSeriesLocked(b, place, b.tickLocked(place, now))
		c.See(now)
		b.unsaved.Mark(place)
	}
}

// rollSeriesLocked records a series' value under a tick.
func (t *Table) rollSeriesLocked(b *block, place, tick uint32) {
	kind.Of(b.page.kinds[place]).RecordLocked(&t.Env, b.handle(place), tick)
}
