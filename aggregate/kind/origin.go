package kind

import (
	"encoding/binary"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// origin is the start time and date of a client's newest running total.
type origin struct {
	started int64 // newest start time, in Unix nanoseconds; 0: unknown
	at      int64 // newest date, in Unix nanoseconds; 0: unknown
	// pushes counts the totals that the client pushed, to any of several replicas as far as known
	// (a Lamport clock): neither a clock nor the value tells a reset from late news.
	pushes uint64
	// arrived is the newest arrival, in milliseconds of the lifetime clock; 0: unknown.
	arrived uint64
}

// alike is the difference between arrivals at two origins that their clocks may be wrong by.
const alike = 2000

// after reports whether a total is a later one of the same client than another, as far as clients
// and origins tell. equal: neither is known to be later.
func (o *origin) after(p *origin) (later, equal bool) {
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

// join makes o the origin of a total that was adopted from another replica.
func (o *origin) join(p *origin) {
	*o = origin{max(o.started, p.started), max(o.at, p.at), max(o.pushes, p.pushes), max(o.arrived, p.arrived)}
}

// judge compares a total with the newest one; fell: it is lower. anew: the client restarted its
// total since. late: the total is no news, and may look like a reset. The OpenTelemetry Collector
// sends batches concurrently, so they overtake each other; a retried remote write pushes old totals.
//
// A lower total is a reset only if it is newer. A higher one with the same start time is later,
// whatever its date: the client's clock was set back.
func (o *origin) judge(s *metric.Sample, fell bool) (anew, late bool) {
	anew = o.started != 0 && s.Started > o.started
	switch {
	case anew || s.Dated == 0:
	case fell:
		late = s.Dated <= o.at
	case s.Started == 0 || s.Started != o.started:
		late = s.Dated < o.at
	}
	return anew, late
}

// see remembers the start time and date of an accepted total.
func (o *origin) see(s *metric.Sample, now window.Moment) {
	o.started = max(o.started, s.Started)
	o.at = max(o.at, DateOf(s, now))
	o.pushes++
	o.arrived = max(o.arrived, millisOf(now.Life))
}

// DateOf returns the date of a sample, in Unix nanoseconds; 0: it has none. A date that is further
// in the future than most clocks are wrong by is the present, or a client whose clock is corrected
// would push no news for as long.
func DateOf(s *metric.Sample, now window.Moment) int64 {
	if wall := now.Wall.UnixNano(); s.Dated > wall+int64(clockError) {
		return wall
	}
	return s.Dated
}

// clockError bounds how far the clock of a client may be ahead: dates up to it keep their order.
const clockError = 10 * time.Second

// appendMoves appends the fields that only replicas need.
func (o *origin) appendMoves(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, o.pushes), o.arrived)
}

func (o *origin) readMoves(d *blob.Decoder) {
	o.pushes, o.arrived = d.Uvarint(), d.Uvarint()
	if o.arrived > latestStamp {
		d.Fail()
	}
}

// ahead converts the arrival to the clock of another origin.
func (o origin) ahead(millis int64) origin {
	if o.arrived != 0 {
		o.arrived = uint64(max(int64(o.arrived)+millis, 1))
	}
	return o
}
