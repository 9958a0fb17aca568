package kind

import (
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// origin is the start time and timestamp of a client's newest running total.
type origin struct {
	started int64 // newest start time, in Unix nanoseconds; 0: unknown
	at      int64 // newest timestamp, in Unix seconds; 0: unknown
}

// judge compares a total with the newest one. anew: the client restarted its total since. late: the
// total is older than the newest one and would look like a reset. A retried remote write may push
// such totals; Prometheus rejects samples that are out of order.
func (o *origin) judge(s *metric.Sample) (anew, late bool) {
	anew = o.started != 0 && s.Started > o.started
	return anew, !anew && s.Timestamp != 0 && s.Timestamp < o.at
}

// see remembers the start time and timestamp of an accepted total. A future timestamp counts as
// now.
func (o *origin) see(s *metric.Sample, now window.Moment) {
	o.started = max(o.started, s.Started)
	o.at = max(o.at, min(s.Timestamp, now.Wall.Unix()))
}
