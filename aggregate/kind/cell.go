package kind

import (
	"math"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Cell is the part of a series that a sample updates: 32 bytes without a pointer. The value belongs
// to the writers, the history to the holder of the history lock.
//
// The value of a counter is its whole units, an int64; fractions are in the body
// (counter_fraction.go). The value of a gauge is the bits of a float64 that equals it exactly
// (metric.Number.AsFloat), or one of the marks below. The value of a timer is the number of its
// live part and of the hot half (timer_live.go). A set keeps all in its body.
type Cell struct {
	Value   atomic.Uint64
	History window.History
	Seen    atomic.Uint32 // window.LifeStamp of the last touch; written under the history lock
	// State is generation<<1 | live, in 31 bits. Publishing it publishes the series; the generation
	// tells a series from a later one in the same place.
	State atomic.Uint32
}

// See stamps the cell as touched. A stamp never falls: a late caller may have read the clock
// earlier.
func (c *Cell) See(now window.Moment) { c.Seen.Store(max(c.Seen.Load(), now.Stamp())) }

const (
	Live      = 1
	StateBits = 1<<31 - 1
)

// Marks of a gauge's value: NaNs, which no client can send, since ingest rejects NaN.
const (
	GaugeUnset = 0x7ff8_5155_1ce0_0001 // created, no value yet
	GaugeMoved = 0x7ff8_5155_1ce0_0002 // the value is in the body (gauge_stamped.go) from now on
)

// Add adds whole units, and returns false if the counter is full. A sum beyond maxTotal is taken
// back at once, so no total ever wraps: additions in flight are far smaller than the rest of an
// int64.
func (c *Cell) Add(whole int64) bool {
	if total := int64(c.Value.Add(uint64(whole))); total > maxTotal || total < -maxTotal {
		c.Value.Add(-uint64(whole))
		return false
	}
	return true
}

const maxTotal = 1 << 62

// finite clamps sums of gauge deltas and timers to finite numbers: an infinity could never be
// served.
func finite(v float64) float64 {
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}
