package aggregate

import (
	"math/rand/v2"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Replicas hash the members of sets with one seed: the least that any of them has. A seed begins
// with the time at which it was made, so a replica with an empty folder takes the seed of the
// others, and their sets stay as they are.

// newSetSeed returns the seed of a table that was never saved.
func newSetSeed() uint64 { return uint64(time.Now().Unix())<<32 | uint64(rand.Uint32()) }

// hearSeed adopts the seed of another origin if it is less than the own one.
func (t *Table) hearSeed(seed uint64) {
	if seed >= t.SetSeed.Load() {
		return
	}
	t.seedMu.Lock()
	defer t.seedMu.Unlock()
	if seed < t.SetSeed.Load() {
		t.adoptSeedLocked(seed)
	}
}

// adoptSeedLocked makes the table hash the members of sets with another seed. Sets that exist keep
// their members (kind/set_seed.go). The next delta of each block saves them.
func (t *Table) adoptSeedLocked(seed uint64) {
	now := t.Clock.Now()
	t.AdoptSeed(seed, now.Tick)
	for i := range t.blocks.made.Load() {
		t.reseedBlock(t.blocks.at[i].Load(), now)
	}
}

// reseedBlock makes the sets of a block change to the table's seed.
func (t *Table) reseedBlock(b *block, now window.Moment) {
	for place := range uint32(kind.BlockSeries) {
		b.history.Lock()
		if b.page.cells[place].State.Load()&kind.Live != 0 && b.page.kinds[place] == metric.Set {
			t.rollSeriesLocked(b, place, b.tickLocked(place, now))
			b.unsaved.Mark(place)
		}
		b.history.Unlock()
	}
}
