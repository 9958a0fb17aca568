package aggregate

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// slowPushLog warns of counters whose push interval is longer than a third of the window of a read.
// Their rate jumps with every push, because the window contains now three pushes and now two, or
// one and none.
type slowPushLog struct {
	log *slog.Logger
	// seen counts the reads of such counters.
	seen atomic.Uint64
	warnings
}

const (
	// slowGaps is the number of similar intervals in a row that make a push interval. Rare events
	// come at irregular intervals and cause no warning.
	slowGaps = 4
)

// slowPush is a slowly pushed counter that an evaluation read. The warning follows after the
// history lock is released.
type slowPush struct {
	entry    *index.Entry
	interval time.Duration
}

// checkPace sets slow if the counter that was just read is pushed too slowly for the window.
func (r *evaluation) checkPace(e *index.Entry) {
	interval := time.Duration(r.Cadence.Interval * float64(r.table.Clock.Tick))
	if r.Cadence.Alike >= slowGaps && float64(interval*window.SlowShare) > window.SlowSlack*float64(r.View.Span.Window) {
		r.slow = slowPush{e, interval}
	}
}

// warn logs the slow counter of an evaluation, at most once an hour for each metric.
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

// warnings limits a warning to one an hour for each metric.
type warnings struct {
	mu     sync.Mutex
	warned map[index.Key]time.Time
}

const (
	warnEvery  = time.Hour
	warnedMost = 1024
)

// due reports whether a metric may be warned of again.
func (s *warnings) due(key index.Key, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, before := s.warned[key]
	if before && now.Sub(at) < warnEvery {
		return false
	}
	if len(s.warned) >= warnedMost {
		maps.DeleteFunc(s.warned, func(_ index.Key, at time.Time) bool { return now.Sub(at) >= warnEvery })
	}
	if len(s.warned) >= warnedMost {
		return false
	}
	if s.warned == nil {
		s.warned = map[index.Key]time.Time{}
	}
	s.warned[key] = now
	return true
}
