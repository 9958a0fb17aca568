package kind

import (
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// running is the state of a running total that the client keeps (exposition, OTLP, remote write).
// The cell holds increases only, as for any other counter. So windows and the balance of A2 are
// independent of the total's start and resets. Guarded by the history lock.
//
//   - R1 The stat total is the cell plus the remainder. It equals the client's total plus the
//     additions of other clients, less the part of the client's total that arrived elsewhere.
//   - R2 While the lock is free, the newest entry, the remainder and the client's total are of the
//     same push, so a restored series continues from there.
type running struct {
	client    Sum // the client's newest total
	remainder Sum // the stat total minus the cell
	elsewhere Sum // growth of the client's total that arrived at other replicas
	progress
}

// RunningBytes is the accounted memory of a running total.
const RunningBytes = int64(unsafe.Sizeof(running{}) + unsafe.Sizeof(fraction{}) + unsafe.Sizeof(Body{}))

// increase returns the growth of a client's total. After a reset all of it is growth, as in
// Prometheus.
func (r *running) increase(total Sum, reset bool) Sum {
	switch {
	case !reset:
		return total.minus(r.client)
	case total.Whole < 0:
		return Sum{}
	}
	return total
}

// accumulateLocked counts the growth of a total. The first total of a series counts as no growth.
func (a *Applier) accumulateLocked(h Series, s *metric.Sample) (grown Sum, rejected metric.Reason) {
	total, ok := quantiseTotal(s)
	if !ok {
		return Sum{}, metric.BadValue
	}
	body := h.makeBody(newFraction)
	if body.running == nil {
		if !(Budget{a.Env, body}).take(RunningBytes) {
			return Sum{}, metric.OverLimit
		}
		body.running = &running{client: total, remainder: total}
		body.running.see(s, a.Now)
		return Sum{}, metric.Applied
	}
	r := body.running
	fell := total.below(r.client)
	anew, late := r.judge(s, fell, a.Now)
	switch {
	case late && r.precedes(s, total):
		grown = r.remainder.minus(total)
	case late:
		return Sum{}, metric.Applied
	default:
		grown = r.increase(total, anew || fell)
	}
	if !h.Cell.Add(grown.Whole) {
		return Sum{}, metric.BadValue
	}
	if grown.Fraction != 0 {
		body.Fraction.units.Add(int64(grown.Fraction))
	}
	a.Counted.Add(grown.Whole, grown.Fraction)
	if late {
		r.remainder = total
		return grown, metric.Applied
	}
	r.remainder = r.remainder.plus(total.minus(r.client)).minus(grown)
	r.client = total
	r.see(s, a.Now)
	return grown, metric.Applied
}

// precedes reports whether a late total is older than the baseline, which it overtook: it is the
// baseline then. The remainder is the baseline until the first reset, and afterwards below every
// total. A total of a backlog says nothing about the present.
func (r *running) precedes(s *metric.Sample, total Sum) bool {
	return s.Started != 0 && s.Started == r.started && !s.Late && total.below(r.remainder)
}

// loneTotalLocked is the stat total of a series without twins: of those that it had before, the client's total remains.
func loneTotalLocked(h Series) metric.Number {
	total := totalLocked(h)
	if body := h.body(); body != nil && body.running != nil {
		total = total.Plus(metric.Decimal(body.running.elsewhere.Whole, int64(body.running.elsewhere.Fraction)))
	}
	return total
}

// totalLocked returns the stat total, as a part of that of all origins.
func totalLocked(h Series) metric.Number {
	whole, units := Held(h)
	if body := h.body(); body != nil && body.running != nil {
		whole += body.running.remainder.Whole
		units += body.running.remainder.Fraction
	}
	return metric.Decimal(whole, int64(units))
}
