package kind

import (
	"math"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Cell is what a sample touches: 32 bytes without a pointer. Its value belongs to the writers, its past to the
// holder of the history lock.
//
// Counters hold whole units, as int64. What is left of fractions is in the body (fraction.go).
// Gauges hold the bits of a float64 that says their value exactly (metric.Number.AsFloat), or one of the marks below. Timers have the number of their live part, and which half of it is hot
// (timerlive.go). Sets keep all in their body.
type Cell struct {
	Value   atomic.Uint64
	History window.History
	Seen    atomic.Uint32 // lifeStamp of when it was last found touched; whoever holds the history lock writes it
	// State is generation<<1 | live, in 31 bits. Publishing it publishes the series; the generation tells a
	// series from a later one in the same place.
	State atomic.Uint32
}

// See stamps the cell as touched. A stamp never falls: whoever comes late may have looked at the clock first.
func (c *Cell) See(now window.Moment) { c.Seen.Store(max(c.Seen.Load(), now.Stamp())) }

const (
	Live      = 1
	StateBits = 1<<31 - 1
)

// Marks of a gauge's value: NaNs that no client can send, for NaN is refused at ingest.
const (
	GaugeUnset = 0x7ff8_5155_1ce0_0001 // created, no value yet
	GaugeMoved = 0x7ff8_5155_1ce0_0002 // the value lives in the body (stamped.go), for good
)

// Add counts whole units. False: the counter is full. A count that would leave maxTotal is taken back at once, so no total
// ever wraps: what writers can add before they take it back is far from the rest of an int64.
func (c *Cell) Add(whole int64) bool {
	if total := int64(c.Value.Add(uint64(whole))); total > maxTotal || total < -maxTotal {
		c.Value.Add(-uint64(whole))
		return false
	}
	return true
}

const maxTotal = 1 << 62

// finite keeps sums of gauge deltas and timers inside float64: an infinity could never be served nor left again.
func finite(v float64) float64 {
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}
