package kind

import (
	"math"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Cell is the part of a series that samples update: 32 bytes without a pointer. Writers update
// Value with atomics. History belongs to the holder of the history lock.
//
// Value depends on the kind:
//   - counter: whole units, an int64; fractions are in the body (counter_fraction.go)
//   - gauge: the bits of the float64 that equals the value exactly (metric.Number.AsFloat), or one
//     of the marks below
//   - timer: the number of the live part and of the hot half (timer_live.go)
//   - set: unused
type Cell struct {
	Value   atomic.Uint64
	History window.History
	Seen    atomic.Uint32 // window.LifeStamp of the last touch; written under the history lock
	// State is generation<<1 | live, in 31 bits. Storing it publishes the series. The generation
	// distinguishes a series from later ones in the same place.
	State atomic.Uint32
}

// See stamps the cell. A stamp never decreases, even if a late caller has an older reading of the
// clock.
func (c *Cell) See(now window.Moment) { c.Seen.Store(max(c.Seen.Load(), now.Stamp())) }

const (
	Live      = 1
	StateBits = 1<<31 - 1
)

// Marks in place of a gauge's value. They are NaNs, which no client can push: NaN is rejected.
const (
	GaugeUnset = 0x7ff8_5155_1ce0_0001 // created, no value yet
	GaugeMoved = 0x7ff8_5155_1ce0_0002 // the value is in the body for good (gauge_stamped.go)
)

// Add adds whole units. It undoes an addition beyond maxTotal and returns false. No total ever
// wraps, because concurrent additions are far smaller than the rest of an int64.
func (c *Cell) Add(whole int64) bool {
	if total := int64(c.Value.Add(uint64(whole))); total > maxTotal || total < -maxTotal {
		c.Value.Add(-uint64(whole))
		return false
	}
	return true
}

const maxTotal = 1 << 62

// finite clamps sums of gauge deltas and timers to finite numbers, because the API cannot serve
// infinities.
func finite(v float64) float64 {
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}
