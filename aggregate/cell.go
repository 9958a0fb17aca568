package aggregate

import (
	"math"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// cell is what a sample touches: 32 bytes without a pointer. Its value belongs to the writers, its past to the
// holder of the history lock.
//
// Counters hold whole units, as int64. What is left of fractions is in the body (fraction.go).
// Gauges hold the bits of a float64 that says their value exactly (metric.Number.AsFloat), or one of the marks below. Timers have the number of their live part, and which half of it is hot
// (timerlive.go). Sets keep all in their body.
type cell struct {
	value   atomic.Uint64
	history window.History
	seen    atomic.Uint32 // lifeStamp of when it was last found touched; whoever holds the history lock writes it
	// state is generation<<1 | live, in 31 bits. Publishing it publishes the series; the generation tells a
	// series from a later one in the same place.
	state atomic.Uint32
}

// see stamps the cell as touched. A stamp never falls: whoever comes late may have looked at the clock first.
func (c *cell) see(now window.Moment) { c.seen.Store(max(c.seen.Load(), now.Stamp())) }

const (
	live      = 1
	stateBits = 1<<31 - 1
)

// Marks of a gauge's value: NaNs that no client can send, for NaN is refused at ingest.
const (
	gaugeUnset = 0x7ff8_5155_1ce0_0001 // created, no value yet
	gaugeMoved = 0x7ff8_5155_1ce0_0002 // the value lives in the body (stamped.go), for good
)

// add counts whole units. False: the counter is full. A count that would leave maxTotal is taken back at once, so no total
// ever wraps: what writers can add before they take it back is far from the rest of an int64.
func (c *cell) add(whole int64) bool {
	if total := int64(c.value.Add(uint64(whole))); total > maxTotal || total < -maxTotal {
		c.value.Add(-uint64(whole))
		return false
	}
	return true
}

const maxTotal = 1 << 62

// finite keeps sums of gauge deltas and timers inside float64: an infinity could never be served nor left again.
func finite(v float64) float64 {
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}
