package aggregate

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// slowPushLog warns of counters that are pushed at an interval that is longer than a third of the
// window they are read over: their rate jumps with every push, for now three pushes are inside and
// now two, or one and none.
type slowPushLog struct {
	log *slog.Logger
	// seen is how many reads met one.
	seen atomic.Uint64
	warnings
}

const (
	// slowGaps is how many intervals in a row have to be alike: rare events come as they like, and
	// are no interval.
	slowGaps = 4
)

// slowPush is a counter that a reading met, for after the lock.
type slowPush struct {
	entry    *index.Entry
	interval time.Duration
}

// checkPace notes whether the counter that was just read is pushed too slowly for the window that
// it is read over.
func (r *evaluation) checkPace(e *index.Entry) {
	interval := time.Duration(r.Cadence.Interval * float64(r.table.Clock.Tick))
	if r.Cadence.Alike >= slowGaps && float64(interval*window.SlowShare) > window.SlowSlack*float64(r.View.Span.Window) {
		r.slow = slowPush{e, interval}
	}
}

// warn logs what a reading met, unless that was done lately.
func (s *slowPushLog) warn(r *evaluation) {
	s.seen.Add(1)
	e := r.slow.entry
	if !s.due(e.Family.Key, r.now.Wall) {
		return
	}
	s.log.Warn("a rate jumps, for its counter is pushed too slowly for the window: push more often, or read a longer one",
		"metric", e.Family.Key.Name, "object", e.Object().String(), "interval", r.slow.interval.Round(time.Second),
		"window", metric.FormatWindow(r.View.Span.Window))
}
