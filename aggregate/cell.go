package aggregate

import (
	"math"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
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

// quantise splits an increment, once, into whole units, exactly, and billionths, 0 <= fraction < fractionUnits.
// It reports false for what is beyond maxIncrement.
func quantise(s *metric.Sample) (whole int64, fraction uint32, ok bool) {
	if s.Rate == 0 || s.Rate == 1 {
		if s.Whole < -maxIncrement || s.Whole > maxIncrement || math.Abs(s.Fraction) >= 1 {
			return 0, 0, false
		}
		whole, fraction = split(s.Fraction)
		return s.Whole + whole, fraction, true
	}
	v := s.Float() / s.Rate
	if !(math.Abs(v) <= maxIncrement) {
		return 0, 0, false
	}
	whole, fraction = split(v)
	return whole, fraction, true
}

// maxIncrement is the most that an autoscaler, which reads thousandths in an int64, could be told of: a single increment
// beyond it is no count.
const maxIncrement = math.MaxInt64 / 1000

// fractionUnits is the grid of fractions: decimal, as clients write them and a Quantity says them.
const fractionUnits = metric.Nanos

// split rounds to the grid first, so that 29.999999999999996 is 30.
func split(v float64) (whole int64, fraction uint32) {
	floor := math.Floor(v)
	units := math.RoundToEven((v - floor) * fractionUnits)
	if units == fractionUnits {
		return int64(floor) + 1, 0
	}
	return int64(floor), uint32(units)
}

// assign sets the gauge. False: the value has moved to the body.
func (c *cell) assign(v float64) bool {
	for {
		old := c.value.Load()
		if old == gaugeMoved {
			return false
		}
		if c.value.CompareAndSwap(old, math.Float64bits(v)) {
			return true
		}
	}
}

// shift adds to the gauge; an unset one starts at 0. False: the value has moved to the body, or has to: no float64 says the sum.
func (c *cell) shift(by metric.Number) bool {
	for {
		old := c.value.Load()
		if old == gaugeMoved {
			return false
		}
		sum, plain := shifted(gaugeNumber(old), by).AsFloat()
		if !plain {
			return false
		}
		if c.value.CompareAndSwap(old, math.Float64bits(sum)) {
			return true
		}
	}
}

// gaugeNumber is what a plain gauge holds. An unset one counts from 0.
func gaugeNumber(bits uint64) metric.Number {
	if bits == gaugeUnset {
		return metric.Number{}
	}
	return metric.Float(math.Float64frombits(bits))
}

// shifted is a gauge's value after a delta.
func shifted(value, by metric.Number) metric.Number {
	sum := value.Plus(by)
	if v := sum.Float64(); math.IsInf(v, 0) {
		return metric.Float(finite(v))
	}
	return sum
}

// finite keeps sums of gauge deltas and timers inside float64: an infinity could never be served nor left again.
func finite(v float64) float64 {
	return max(-math.MaxFloat64, min(v, math.MaxFloat64))
}

// codingOf is how the history of a kind is coded.
func codingOf(k metric.Kind) window.Coding {
	switch k {
	case metric.Gauge:
		return window.FloatCoding
	case metric.Timer:
		return window.WeightCoding
	}
	return window.WholeCoding
}
