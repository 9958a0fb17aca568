package autoscaler

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// To find out what pods without a value do costs about six times as much as to read the metrics.
const (
	// heldInterval is how long an answer counts if the number of these pods doesn't change.
	heldInterval = 30 * time.Second
	// heldReads bounds the values that a round reads for it: autoscalers beyond keep their former answer
	// until a later round.
	heldReads = 15_000
)

// Held is what pods without a value, or with rejected series, do at one metric of an autoscaler.
type Held struct {
	// Why says that they change, or may change, what the controller decides; empty: they don't.
	Why string
	// Without are some of them.
	Without []inspect.PodWithout
}

// hold finds out at which metrics pods without a value, or with rejected series, hold an autoscaler back,
// and adds that to its answers. It asks only where there are such pods, and seldom. left is what is left of heldReads.
func (w *Watcher) hold(document *inspect.Autoscaler, answers []answer, reader Reader, now time.Time, left *int) {
	some, cost := false, 0
	for i := range answers {
		one := &answers[i]
		some = some || document.Metrics[i].Source == "Pods" && one.lacksPods()
		cost += metricReads + max(one.values, one.pods)
	}
	if !some || w.knowsHeld(document, answers, now) || *left <= 0 {
		return
	}
	*left -= cost
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
	if before == nil || !slices.EqualFunc(before.document.Metrics, document.Metrics, inspect.SameMetric) {
		return false
	}
	counts := true
	for i := range answers {
		was := &before.metrics[i]
		if answers[i].heldAt = was.heldAt; answers[i].lacksPods() {
			answers[i].held = was.held
		}
		counts = counts && now.Sub(was.heldAt) < heldInterval && was.pods == answers[i].pods && was.values == answers[i].values &&
			was.rejected == answers[i].rejected
	}
	return counts
}
