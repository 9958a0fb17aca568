package autoscaler

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	// grace is the time for which a fault may last before anybody is told: pods start, and the
	// autoscaler's status is up to 15 s old.
	grace = 30 * time.Second
	// repeat is the shortest time between two notices of the beginning of a fault.
	repeat = 5 * time.Minute
)

// state is a metric of an autoscaler over time.
type state struct {
	answer
	lack spell // it is missing
	hold spell // pods hold the autoscaler back
}

func (s *state) set(now answer, at time.Time) {
	s.answer = now
	s.why = metric.Truncate(now.why, metric.MaxQuoted) // it may quote the target, whose name the API server does not bound
	s.lack.set(now.missing, at)
	s.hold.set(now.held.Why != "", at)
}

// due are the faults of which a notice is due. It stays due until told. A fault ends with a value.
func (s *state) due(now time.Time) (all []fault) {
	if s.lack.begins(now) || s.lack.ended() && s.asked {
		all = append(all, missing)
	}
	if s.hold.begins(now) || s.hold.ended() && s.asked && !s.missing {
		all = append(all, heldBack)
	}
	return all
}

// spell is a fault of a metric over time.
type spell struct {
	since  time.Time // since when it lasts; zero: it doesn't
	began  time.Time // since when it lasted, when that was told
	told   bool      // the last notice said that it lasts
	toldAt time.Time // when a notice last said that it lasts
}

func (s *spell) set(lasts bool, at time.Time) {
	switch {
	case !lasts:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = at
	}
}

func (s *spell) lasts() bool { return !s.since.IsZero() }

// begins reports whether a notice is due that the fault lasts.
func (s *spell) begins(now time.Time) bool {
	return s.lasts() && !s.told && now.Sub(s.since) >= grace && (s.toldAt.IsZero() || now.Sub(s.toldAt) >= repeat)
}

// ended reports whether the fault was told and doesn't last any more.
func (s *spell) ended() bool { return s.told && !s.lasts() }

// tell records that a notice was given.
func (s *spell) tell(now time.Time) {
	if s.told = s.lasts(); s.told {
		s.toldAt, s.began = now, s.since
	}
}

// To find out what pods without a value do costs about six times as much as to read the metrics.
const (
	// heldInterval is how long an answer counts if the number of these pods doesn't change.
	heldInterval = 30 * time.Second
	// heldReads bounds the values that a round reads for it: autoscalers beyond keep their former answer
	// until a later round. heldReadsEach bounds those of a namespace.
	heldReads     = 15_000
	heldReadsEach = heldReads / 4
)

// heldBudget is what is left of heldReads in a round.
type heldBudget struct {
	left int
	each map[string]int // taken, by namespace
}

// take takes some reads for an autoscaler of a namespace, or reports that it has to wait.
func (b *heldBudget) take(namespace string, reads int) bool {
	if b.left <= 0 || b.each[namespace] >= heldReadsEach {
		return false
	}
	b.left -= reads
	b.each[namespace] += reads
	return true
}

// hold finds out at which metrics pods without a value, or with rejected series, hold an autoscaler back,
// and adds that to its answers. It asks only where there are such pods, and seldom.
func (w *Watcher) hold(document *inspect.Autoscaler, answers []answer, reader Reader, now time.Time, budget *heldBudget) {
	some, cost := false, 0
	for i := range answers {
		a := &answers[i]
		some = some || document.Metrics[i].Source == "Pods" && a.lacksPods()
		cost += metricReads + max(a.values, a.pods)
	}
	if !some || w.knowsHeld(document, answers, now) || !budget.take(document.Namespace, cost) {
		return
	}
	asked := *document
	asked.Metrics = slices.Clone(document.Metrics)
	for i := range answers {
		asked.Metrics[i].Asked, answers[i].heldAt = answers[i].asked, now
	}
	for i, held := range reader.HeldBack(&asked) {
		answers[i].held = held
	}
}

// lacksPods reports whether pods may lack a value, or a part of it.
func (a *answer) lacksPods() bool {
	return a.asked && !a.missing && (a.values < a.pods || a.rejected)
}

// knowsHeld takes over the former answer. It reports whether that still counts.
func (w *Watcher) knowsHeld(document *inspect.Autoscaler, answers []answer, now time.Time) bool {
	before := w.held[name{document.Namespace, document.Name}] // this goroutine alone writes
	if before == nil || before.document.UID != document.UID || !slices.EqualFunc(before.document.Metrics, document.Metrics, inspect.SameMetric) {
		return false
	}
	counts := true
	for i := range answers {
		was := &before.metrics[i]
		if answers[i].heldAt = was.heldAt; answers[i].lacksPods() {
			answers[i].held = was.held
		}
		counts = counts && now.Sub(was.heldAt) < heldInterval && was.pods == answers[i].pods &&
			was.values == answers[i].values &&
			was.rejected == answers[i].rejected
	}
	return counts
}
