package kind

import (
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// running is the state of a running total that the client keeps (exposition, OTLP, remote write).
// The cell holds increases alone, like that of any other counter. So windows and the balance of A2
// know nothing of the total's start and its resets. Guarded by the history lock.
//
//   - R1 The stat total is the cell plus the remainder: the client's total, and additions by
//     others.
//   - R2 Between two holds of the lock the newest entry, the remainder and the client's total are
//     of the same push, so saved state continues from there.
type running struct {
	client    Sum // the client's total as last pushed
	remainder Sum // what total reads beyond what was counted
	origin
}

const RunningBytes = int64(unsafe.Sizeof(running{}) + unsafe.Sizeof(fraction{}) + unsafe.Sizeof(Body{}))

// increase is the growth of a client's total. A lower total, or one that began later, began anew:
// all of it is growth, as in Prometheus.
func (r *running) increase(total Sum, anew bool) Sum {
	switch {
	case !anew && !total.below(r.client):
		return total.minus(r.client)
	case total.Whole < 0:
		return Sum{}
	}
	return total
}

// accumulateLocked counts the growth of a total. The first total of a series counts nothing.
func (a *Applier) accumulateLocked(h Series, s *metric.Sample) (grown Sum, refused metric.Reason) {
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
	anew, late := r.judge(s)
	if late {
		return Sum{}, metric.Applied
	}
	grown = r.increase(total, anew)
	if !h.Cell.Add(grown.Whole) {
		return Sum{}, metric.BadValue
	}
	if grown.Fraction != 0 {
		body.Fraction.units.Add(int64(grown.Fraction))
	}
	a.Counted.Add(grown.Whole, grown.Fraction)
	r.remainder = r.remainder.plus(total.minus(r.client)).minus(grown)
	r.client = total
	r.see(s, a.Now)
	return grown, metric.Applied
}

// totalLocked is the stat total.
func totalLocked(h Series) metric.Number {
	whole, units := Held(h)
	if body := h.body(); body != nil && body.running != nil {
		whole += body.running.remainder.Whole
		units += body.running.remainder.Fraction
	}
	return metric.Decimal(whole, int64(units))
}
