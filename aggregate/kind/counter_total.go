package kind

import (
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// running is what a counter remembers of a total that its client keeps itself (exposition, OTLP, remote write). The
// cell counts increases alone, as it does for any other counter: so windows, notes and books know nothing of where
// the client's total began or that it began anew. (Before: the total itself in the cell; every reset then had to shift
// all notes while writers added.) All of it is guarded by the history lock.
//
//   - R1 What total reads is the cell and the remainder: the client's total, and what others added beside it.
//   - R2 Between two holds of the lock the newest note, the remainder and the client's total are as of the same push: so
//     what is saved goes on from there.
type running struct {
	client    Sum // the client's total as last pushed
	remainder Sum // what total reads beyond what was counted
	origin
}

const RunningBytes = int64(unsafe.Sizeof(running{}) + unsafe.Sizeof(fraction{}) + unsafe.Sizeof(Body{}))

// increase is by how much a client's total has grown. A lower one, or one that began later, began anew: all of it is growth.
// (Prometheus' rule; below zero nothing has grown.)
func (r *running) increase(total Sum, anew bool) Sum {
	switch {
	case !anew && !total.below(r.client):
		return total.minus(r.client)
	case total.Whole < 0:
		return Sum{}
	}
	return total
}

// accumulateLocked counts what a client's total has grown by. The first total of a series is where it begins.
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

// totalLocked is what a counter's total reads.
func totalLocked(h Series) metric.Number {
	whole, units := Held(h)
	if body := h.body(); body != nil && body.running != nil {
		whole += body.running.remainder.Whole
		units += body.running.remainder.Fraction
	}
	return metric.Decimal(whole, int64(units))
}
