package kind

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// fraction is the sum of the fractional parts of a counter's increments, in billionths. Most
// counters get whole increments only and need none.
type fraction struct {
	units   atomic.Int64
	History window.History // guarded by the history lock
	// fell is set once the counter has fallen, by an increment below 0; guarded by the history lock.
	fell bool
}

func newFraction() *Body { return &Body{Fraction: new(fraction)} }

// usedLocked reports whether any increment had a fractional part. A counter with whole running
// totals has an unused fraction, which needs no history.
func (f *fraction) usedLocked() bool { return f.History.Stamp != 0 || f.units.Load() != 0 }

// carryAt is the size of the fraction from which the roller carries whole units into the cell. It
// is far below the largest int64.
const carryAt = 1 << 62

// carryLocked moves whole units from the fraction into the cell. Readers hold the history lock, so
// none sees the state between the two additions. Concurrent additions of writers commute with it.
func (f *fraction) carryLocked(c *Cell) {
	if units := f.units.Load(); units >= carryAt {
		whole := units / FractionUnits
		c.Value.Add(uint64(whole))
		f.units.Add(-whole * FractionUnits)
	}
}
