package kind

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// fraction is the body of a counter that ever got an increment that was not whole: what its
// increments had beyond whole units, in billionths. Most counters never need one.
type fraction struct {
	units   atomic.Int64
	History window.History // guarded by the history lock
}

func newFraction() *Body { return &Body{Fraction: new(fraction)} }

// usedLocked reports whether there ever was one: a counter that has only a running total keeps no
// notes here.
func (f *fraction) usedLocked() bool { return f.History.Stamp != 0 || f.units.Load() != 0 }

// carryAt is when the roller moves whole units over: far before an int64 of grid units is full.
const carryAt = 1 << 62

// carryLocked moves whole units from the fraction into the cell. The caller holds the history lock,
// so no reader sees the two in between; a writer's additions commute with it.
func (f *fraction) carryLocked(c *Cell) {
	if units := f.units.Load(); units >= carryAt {
		whole := units / FractionUnits
		c.Value.Add(uint64(whole))
		f.units.Add(-whole * FractionUnits)
	}
}
