package kind

import (
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// origin is which of a client's lives its running total is of, and how new.
type origin struct {
	started int64 // the newest start that was told, in Unix nanoseconds; 0: none was
	at      int64 // the newest timestamp, in Unix seconds; 0: none was told
}

// judge says whether a total is of a later life, and whether it comes late: it is older than one
// that was taken, and would look like a fresh start. (Prometheus refuses samples out of order; so a
// retried remote write may bring some.)
func (o *origin) judge(s *metric.Sample) (anew, late bool) {
	anew = o.started != 0 && s.Started > o.started
	return anew, !anew && s.Timestamp != 0 && s.Timestamp < o.at
}

// see remembers what a total that was taken said of itself. The future counts as now.
func (o *origin) see(s *metric.Sample, now window.Moment) {
	o.started = max(o.started, s.Started)
	o.at = max(o.at, min(s.Timestamp, now.Wall.Unix()))
}
