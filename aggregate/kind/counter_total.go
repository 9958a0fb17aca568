package kind

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
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

// progress is how far a client has come with a running total: the start time and the date of its newest one.
type progress struct {
	started int64 // newest start time, in Unix nanoseconds; 0: unknown
	at      int64 // newest date, in Unix nanoseconds; 0: unknown
	// pushes counts the totals that the client pushed, to any of several replicas as far as known (a
	// Lamport clock): neither a clock nor the value tells a reset from a late total.
	pushes uint64
	// arrived is the newest arrival, in milliseconds of the lifetime clock; 0: unknown.
	arrived uint64
}

// alike is the difference between arrivals at two origins that errors of their clocks may explain.
const alike = 2000

// after reports whether a total is a later one of the same client than another, as far as clients
// and origins tell. equal: neither is known to be later.
func (o *progress) after(p *progress) (later, equal bool) {
	switch {
	case o.started != p.started && o.started != 0 && p.started != 0:
		return o.started > p.started, false
	case o.at != p.at && o.at != 0 && p.at != 0:
		return o.at > p.at, false
	case o.arrived != 0 && p.arrived != 0 && max(o.arrived, p.arrived)-min(o.arrived, p.arrived) > alike:
		return o.arrived > p.arrived, false
	}
	return o.pushes > p.pushes, o.pushes == p.pushes
}

// join makes o the progress of a total that was adopted from another replica.
func (o *progress) join(p *progress) {
	*o = progress{max(o.started, p.started), max(o.at, p.at), max(o.pushes, p.pushes), max(o.arrived, p.arrived)}
}

// judge compares a total with the newest one; fell: it is lower. anew: the client restarted its total
// since. late: the total is old, and may look like a reset. The OpenTelemetry Collector sends batches
// concurrently, so they overtake each other; a retried remote write pushes old totals.
//
// A lower total is a reset only if it is newer. A higher one with the same start time is later,
// whatever its date: the client's clock was set back. A total that was read before the newest one arrived, at another
// replica perhaps, is not newer.
func (o *progress) judge(s *metric.Sample, fell bool, now window.Moment) (anew, late bool) {
	at := StandingDate(o.at, now)
	anew = o.started != 0 && s.Started > o.started
	switch {
	case fell && s.Read != 0:
		late = o.arrived > millisOf(time.Unix(0, s.Read).Sub(now.Epoch))
	case anew || s.Dated == 0:
	case fell:
		late = s.Dated <= at
	case s.Started == 0 || s.Started != o.started:
		late = s.Dated < at
	}
	return anew, late
}

// see remembers the start time and date of an accepted total.
func (o *progress) see(s *metric.Sample, now window.Moment) {
	o.started = max(o.started, s.Started)
	o.at = max(StandingDate(o.at, now), DateOf(s, now))
	o.pushes++
	o.arrived = max(o.arrived, millisOf(now.Life))
}

// DateOf returns the date of a sample, in Unix nanoseconds; 0: it has none. A date beyond clockError in the
// future becomes the present: otherwise, once a client's clock is corrected, its totals would be old for as
// long.
func DateOf(s *metric.Sample, now window.Moment) int64 {
	if s.Dated > latestDate(now) {
		return now.Wall.UnixNano()
	}
	return s.Dated
}

// StandingDate returns the date of a value that is held, or 0 if it is beyond clockError in the future: the clock was
// set back since, and all that comes would be old for as long.
func StandingDate(at int64, now window.Moment) int64 {
	if at > latestDate(now) {
		return 0
	}
	return at
}

// latestDate is the latest date that a value can have now.
func latestDate(now window.Moment) int64 { return now.Wall.UnixNano() + int64(clockError) }

// clockError bounds how far the clock of a client may be ahead: dates up to it keep their order.
const clockError = 10 * time.Second

// appendMoves appends the fields that only replicas need.
func (o *progress) appendMoves(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, o.pushes), o.arrived)
}

func (o *progress) readMoves(d *blob.Decoder) {
	o.pushes, o.arrived = d.Uvarint(), d.Uvarint()
	if o.arrived > latestStamp {
		d.Fail()
	}
}

// ahead converts the arrival to the clock of another origin.
func (o progress) ahead(millis int64) progress {
	if o.arrived != 0 {
		o.arrived = uint64(max(int64(o.arrived)+millis, 1))
	}
	return o
}
