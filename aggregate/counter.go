package aggregate

import (
	"math"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// counterKind is the behaviour of counters. A counter holds whole units in its cell; the body has what fractions are beyond whole units
// (fraction.go), and the total that its client keeps, if it does (running.go).
type counterKind struct{}

func (counterKind) coding() window.Coding { return window.WholeCoding }

func (counterKind) check(s *metric.Sample) metric.Reason {
	if _, _, ok := quantise(s); !ok {
		return metric.BadValue
	}
	return metric.Applied
}

func (counterKind) checkPreAggregated(s *metric.Sample) metric.Reason {
	if s.Op != metric.Accumulate || s.Histogram != nil {
		return metric.Malformed
	}
	if _, ok := quantiseTotal(s); !ok {
		return metric.BadValue
	}
	return metric.Applied
}

func (counterKind) create(*env, handle) {}

func (counterKind) apply(a *applier, h handle, s *metric.Sample) metric.Reason {
	whole, units, ok := quantise(s)
	if !ok {
		return metric.BadValue
	}
	if !h.cell.add(whole) {
		return metric.BadValue
	}
	if units != 0 {
		h.makeBody(newFraction).fraction.units.Add(int64(units))
	}
	a.counted.add(whole, uint64(units))
	return metric.Applied
}

func (c counterKind) applyDatedLocked(a *applier, h handle, tick uint32, s *metric.Sample) metric.Reason {
	whole, units, ok := quantise(s)
	if !ok {
		return metric.BadValue
	}
	refused := c.apply(a, h, s)
	if refused == metric.Applied {
		h.shiftLocked(a.logs, tick, whole, int64(units))
	}
	return refused
}

func (counterKind) applyPreAggregatedLocked(a *applier, h handle, tick uint32, s *metric.Sample) metric.Reason {
	grown, refused := a.accumulateLocked(h, s)
	if tick < h.cell.history.Stamp {
		h.shiftLocked(a.logs, tick, grown.whole, int64(grown.fraction))
	}
	return refused
}

// shiftLocked notes that a counter grew in an earlier tick than the newest note's.
func (h handle) shiftLocked(n *window.Logs, tick uint32, whole, units int64) {
	born := *h.born
	h.cell.history.Shift(n, window.WholeCoding, tick, uint64(whole), born, window.AddWhole)
	if body := h.body(); body != nil && body.fraction != nil && (units != 0 || body.fraction.history.Stamp != 0) {
		body.fraction.history.Shift(n, window.WholeCoding, tick, uint64(units), born, window.AddWhole)
	}
}

func (counterKind) recordLocked(e *env, h handle, tick uint32) {
	if body := h.body(); body != nil && body.fraction.usedLocked() {
		body.fraction.carryLocked(h.cell)
		body.fraction.history.Record(e.logs, window.WholeCoding, tick, uint64(body.fraction.units.Load()))
	}
	h.cell.history.Record(e.logs, window.WholeCoding, tick, h.cell.value.Load())
}

func (counterKind) shrinkLocked(e *env, h handle, now uint32) {
	h.cell.history.Shrink(e.logs, window.WholeCoding, now)
	if body := h.body(); body != nil && body.fraction != nil {
		body.fraction.history.Shrink(e.logs, window.WholeCoding, now)
	}
}

func (counterKind) weigh(e *env, h handle) {
	if body := h.body(); body != nil && body.running != nil {
		e.weigh(body, runningBytes)
	}
}

func (counterKind) inherit(_ *env, from, to handle, at remains) bool {
	whole, units := counterSum(from)
	if !to.cell.add(whole - at.whole) {
		return false // it is full: what came late retires with the rest
	}
	if units != at.units {
		to.makeBody(newFraction).fraction.units.Add(int64(units - at.units))
	}
	return true
}

func (counterKind) timestampLocked(h handle) int64 {
	if body := h.body(); body != nil && body.running != nil {
		return body.running.at
	}
	return 0
}

func (counterKind) begin(*reader) {}

// readLocked reads a counter. What came in a window is read off the notes, so it is noted first.
func (counterKind) readLocked(r *reader, h handle) {
	if r.stat == metric.Total {
		r.plus(totalLocked(h))
		return
	}
	s, before, some := r.Read(&h.cell.history, window.WholeCoding, *h.born)
	count := metric.Int(0)
	if some {
		count = r.countLocked(h, s, before)
	}
	switch r.stat {
	case metric.Count:
		r.plus(count)
	case metric.Rate:
		r.plus(metric.Computed(count.Float64() / s.Seconds))
	default:
		r.unread = true
	}
}

// countLocked is what a counter grew by in a stretch, with its fractions.
func (r *reader) countLocked(h handle, s window.Stretch, before uint64) metric.Number {
	var fraction *window.History
	fractionBefore := uint64(0)
	if body := h.body(); body != nil && body.fraction.history.Stamp != 0 {
		fraction = &body.fraction.history
		r.fractions = fraction.Read(r.logs, window.WholeCoding, r.fractions[:0])
		// It may have begun later than the counter. If not, it is as old.
		if oldest := r.fractions[0]; oldest.Tick <= r.Entries[0].Tick && r.logs.Before(r.Entries[0], *h.born) != 0 {
			fractionBefore = oldest.Value
		}
	}
	since := func(from float64) metric.Number {
		whole, part := window.IncreaseSince(r.Entries, from, before, window.Wholes)
		if fraction == nil {
			return metric.Int(whole + int64(math.Round(part)))
		}
		units, rest := window.IncreaseSince(r.fractions, from, fractionBefore, window.Wholes)
		steps := math.Trunc(part)
		return metric.Decimal(whole+int64(steps), units+int64(math.Round(rest+(part-steps)*fractionUnits)))
	}
	integral := fraction == nil && r.stat == metric.Count
	return s.Scaled(since(s.From), integral, func(from float64) float64 { return since(from).Float64() })
}

func (counterKind) value(r *reader) (v float64, ok bool) {
	r.unread = true // every stat of a counter adds
	return 0, false
}

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

// counterSum is what a counter holds, as sum.add takes it. A fraction's units never go below zero.
func counterSum(h handle) (whole int64, fraction uint64) {
	whole = int64(h.cell.value.Load())
	if body := h.body(); body != nil {
		fraction = uint64(body.fraction.units.Load())
	}
	return whole, fraction
}
