package kind

import (
	"math"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// counterKind is the behaviour of counters. The cell holds whole units. The body holds the fraction
// (counter_saved.go) and, if the client pushes running totals, the last total
// (counter_total.go).
type counterKind struct{}

func (counterKind) Coding() window.Coding { return window.WholeCoding }

func (counterKind) check(s *metric.Sample) metric.Reason {
	if _, _, ok := s.Increment(); !ok {
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

func (counterKind) Create(*Env, Series) {}

func (counterKind) apply(a *Applier, h Series, s *metric.Sample) metric.Reason {
	whole, units, ok := s.Increment()
	if !ok {
		return metric.BadValue
	}
	if !h.Cell.Add(whole) {
		return metric.BadValue
	}
	if units != 0 {
		h.makeBody(newFraction).Fraction.units.Add(int64(units))
	}
	a.Counted.Add(whole, uint64(units))
	return metric.Applied
}

func (c counterKind) ApplyDatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason {
	whole, units, ok := s.Increment()
	if !ok {
		return metric.BadValue
	}
	rejected := c.apply(a, h, s)
	if rejected == metric.Applied {
		h.shiftLocked(a.Logs, tick, whole, int64(units))
	}
	return rejected
}

func (counterKind) ApplyPreAggregatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason {
	grown, rejected := a.accumulateLocked(h, s)
	if tick < h.Cell.History.Stamp {
		h.shiftLocked(a.Logs, tick, grown.Whole, int64(grown.Fraction))
	}
	return rejected
}

// shiftLocked records growth in a tick before the newest entry.
func (h Series) shiftLocked(n *window.Logs, tick uint32, whole, units int64) {
	if whole < 0 {
		h.fellLocked()
	}
	born := *h.Born
	h.Cell.History.Shift(n, window.WholeCoding, tick, uint64(whole), born, window.AddWhole)
	if body := h.body(); body != nil && body.Fraction != nil && (units != 0 || body.Fraction.History.Stamp != 0) {
		body.Fraction.History.Shift(n, window.WholeCoding, tick, uint64(units), born, window.AddWhole)
	}
}

func (counterKind) RecordLocked(e *Env, h Series, tick uint32) {
	if body := h.body(); body != nil && body.Fraction.usedLocked() {
		body.Fraction.carryLocked(h.Cell)
		body.Fraction.History.Record(e.Logs, window.WholeCoding, tick, uint64(body.Fraction.units.Load()))
	}
	now := h.Cell.Value.Load()
	if int64(now) < int64(h.Cell.History.Newest) {
		h.fellLocked()
	}
	h.Cell.History.Record(e.Logs, window.WholeCoding, tick, now)
}

// fellLocked notes that the counter has fallen.
func (h Series) fellLocked() { h.makeBody(newFraction).Fraction.fell = true }

func (counterKind) ShrinkLocked(e *Env, h Series, now uint32) {
	h.Cell.History.Shrink(e.Logs, window.WholeCoding, now)
	if body := h.body(); body != nil && body.Fraction != nil {
		body.Fraction.History.Shrink(e.Logs, window.WholeCoding, now)
	}
}

func (counterKind) Weigh(e *Env, h Series) {
	if body := h.body(); body != nil && body.running != nil {
		e.Weigh(body, RunningBytes)
	}
}

func (counterKind) Inherit(_ *Env, from, to Series, at Remains) bool {
	whole, units := Held(from)
	if !to.Cell.Add(whole - at.Whole) {
		return false // the successor is full: the late increments are retired with the series
	}
	if units != at.Units {
		to.makeBody(newFraction).Fraction.units.Add(int64(units - at.Units))
	}
	return true
}

func (counterKind) DateLocked(h Series) int64 {
	if body := h.body(); body != nil && body.running != nil {
		return body.running.at
	}
	return 0
}

func (counterKind) begin(*Reader) {}

// ReadLocked reads a counter. It computes windows from the history, so the caller calls
// RecordLocked first.
func (counterKind) ReadLocked(r *Reader, h Series) {
	if r.Stat == metric.Total {
		r.plus(loneTotalLocked(h))
		return
	}
	s, before, ok := r.Read(&h.Cell.History, window.WholeCoding, h.singles(r.Env.Logs), *h.Born)
	count := metric.Int(0)
	if ok {
		count = r.countLocked(h, s, before)
	}
	switch r.Stat {
	case metric.Count:
		r.plus(count)
	case metric.Rate:
		r.plusRate(count, &s)
	default:
		r.unsupportedStat = true
	}
}

// countLocked returns the growth of a counter in a stretch, including fractions. A count of whole units
// is whole.
func (r *Reader) countLocked(h Series, s window.Stretch, before uint64) metric.Number {
	fractions, fractionBefore := r.fractionsLocked(h)
	if !s.Regular() {
		whole, part := window.IncreaseSince(r.Entries, s.From, before, window.Wholes)
		if fractions == nil {
			return metric.Int(whole + int64(math.Round(part)))
		}
		units, rest := window.IncreaseSince(fractions, s.From, fractionBefore, window.Wholes)
		steps := math.Trunc(part)
		return metric.Decimal(whole+int64(steps), units+int64(math.Round(rest+(part-steps)*FractionUnits)))
	}
	v := s.Increase(func(from float64) float64 {
		whole, part := window.IncreaseSince(r.Entries, from, before, window.Wholes)
		if fractions == nil {
			return float64(whole) + part
		}
		units, rest := window.IncreaseSince(fractions, from, fractionBefore, window.Wholes)
		return float64(whole) + part + (float64(units)+rest)/FractionUnits
	})
	if fractions == nil && r.Stat == metric.Count {
		v = math.Round(v)
	}
	return metric.Computed(v)
}

// singles is History.Singles of a counter's both parts.
func (h Series) singles(n *window.Logs) uint8 {
	single := h.Cell.History.Singles(n)
	if body := h.body(); body != nil && body.Fraction.History.Stamp != 0 {
		single = min(single, body.Fraction.History.Singles(n))
	}
	return single
}

// fractionsLocked returns the history of a counter's fraction, and the value before it; nil if there
// is none. The entries of the counter were read before.
func (r *Reader) fractionsLocked(h Series) (all []window.Entry, before uint64) {
	body := h.body()
	if body == nil || body.Fraction.History.Stamp == 0 {
		return nil, 0
	}
	r.fractions = body.Fraction.History.Read(r.Env.Logs, window.WholeCoding, r.fractions[:0])
	// The fraction's history may begin later than the counter's. It counts from zero then.
	if oldest := r.fractions[0]; oldest.Tick <= r.Entries[0].Tick && r.Env.Logs.Before(r.Entries[0], *h.Born) != 0 {
		before = oldest.Value
	}
	return r.fractions, before
}

func (counterKind) value(r *Reader) (v float64, ok bool) {
	r.unsupportedStat = true // every stat of a counter adds
	return 0, false
}

// FractionUnits is the number of fraction units in a whole unit. It is decimal, like the numbers of
// clients and Kubernetes quantities.
const FractionUnits = metric.Nanos

// Held returns the value of a counter as arguments of Sum.Add. The fraction is never negative.
func Held(h Series) (whole int64, fraction uint64) {
	whole = int64(h.Cell.Value.Load())
	if body := h.body(); body != nil {
		fraction = uint64(body.Fraction.units.Load())
	}
	return whole, fraction
}
