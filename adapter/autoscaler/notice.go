package autoscaler

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// maxNotices bounds the notices of a round, maxNoticesEach those of a namespace. The others are told in the next ones.
const maxNotices, maxNoticesEach = 20, 5

// EventRecorder writes Events on autoscalers, for people to read. With several replicas all of them
// see the cause, and one of them writes.
type EventRecorder interface {
	// AutoscalerEvent writes an Event. about is its cause in short. It never blocks.
	AutoscalerEvent(on *inspect.Autoscaler, warning bool, reason, about, message string)
}

// fault is what may be wrong with a metric of an autoscaler.
type fault int

const (
	missing fault = iota
	heldBack
)

// notice is a change to tell of: a metric has a fault for a while, or not any more.
type notice struct {
	of     *inspect.Autoscaler
	metric *inspect.AutoscalerMetric
	state  *state
	fault  fault
}

func (n notice) spell() *spell {
	if n.fault == heldBack {
		return &n.state.hold
	}
	return &n.state.lack
}

// logged identifies a warning that several autoscalers share.
type logged struct {
	namespace, metric string
	fault             fault
}

// name is the metric's name for the log: the API server does not bound it.
func (n notice) name() string { return metric.Truncate(n.metric.Name, maxLabel) }

func (n notice) logged() logged { return logged{n.of.Namespace, n.metric.Name, n.fault} }

// tell writes notices to the log and as Events. Run's goroutine alone calls it, and it alone changes
// states.
func (w *Watcher) tell(notices []notice, now time.Time) {
	for l, at := range w.notified {
		if now.Sub(at) >= repeat {
			delete(w.notified, l)
		}
	}
	for _, n := range inTurn(notices) {
		began := time.Now()
		switch lasts := n.spell().lasts(); {
		case n.fault == missing && lasts:
			w.tellMissing(n, now)
		case n.fault == missing:
			w.tellAvailable(n, now)
		case lasts:
			w.tellHeldBack(n, now)
		default:
			w.tellReleased(n, now)
		}
		w.mu.Lock()
		n.spell().tell(now)
		w.mu.Unlock()
		w.charge(n.of.Namespace, nil, began) // a hint looks at the names of the namespace
	}
}

// inTurn are the notices of this round.
func inTurn(all []notice) (some []notice) {
	each := map[string]int{}
	for _, n := range all {
		if each[n.of.Namespace]++; each[n.of.Namespace] <= maxNoticesEach && len(some) < maxNotices {
			some = append(some, n)
		}
	}
	return some
}

func (w *Watcher) tellMissing(n notice, now time.Time) {
	why := n.state.why + "."
	if w.parts.Hint != nil {
		if hint := w.parts.Hint(n.of, n.metric); hint != "" {
			why += " " + hint
		}
	}
	message := fmt.Sprintf("%s metric %q has no value: %s More: sluice explain hpa/%s -n %s",
		n.metric.Source, n.name(), why, n.of.Name, n.of.Namespace)
	w.parts.Events.AutoscalerEvent(n.of, true, "MetricMissing", n.about(), message)
	w.warn(n, now, "a metric of an autoscaler has no value", strings.TrimSuffix(why, "."))
}

// warn writes a warning, unless one about another autoscaler of the namespace and the metric is recent.
func (w *Watcher) warn(n notice, now time.Time, text, why string) {
	if _, recently := w.notified[n.logged()]; recently {
		return
	}
	w.notified[n.logged()] = now
	w.parts.Logger.Warn(text, "namespace", n.of.Namespace, "metric", n.name(),
		"autoscaler", n.of.Name, "source", n.metric.Source, "since", n.spell().since.UTC().Truncate(time.Second),
		"why", why)
}

func (w *Watcher) tellAvailable(n notice, now time.Time) {
	value, after := w.parts.Quantity(n.state.value), now.Sub(n.state.lack.began).Round(time.Second)
	message := fmt.Sprintf("%s metric %q has a value again after %v: %s", n.metric.Source, n.name(), after, value)
	w.parts.Events.AutoscalerEvent(n.of, false, "MetricAvailable", n.about(), message)
	delete(w.notified, n.logged())
	w.parts.Logger.Info("a metric of an autoscaler has a value again", "namespace", n.of.Namespace,
		"metric", n.name(),
		"autoscaler", n.of.Name, "after", after, "value", value)
}

func (w *Watcher) tellHeldBack(n notice, now time.Time) {
	message := fmt.Sprintf("Pods metric %q holds the autoscaler back: %s. More: sluice explain hpa/%s -n %s",
		n.name(), n.state.held.Why, n.of.Name, n.of.Namespace)
	w.parts.Events.AutoscalerEvent(n.of, true, "MetricHeldBack", n.about(), message)
	w.warn(n, now, "an autoscaler is held back by pods that lack a value or a part of it", n.state.held.Why)
}

func (w *Watcher) tellReleased(n notice, now time.Time) {
	after := now.Sub(n.state.hold.began).Round(time.Second)
	message := fmt.Sprintf("Pods metric %q no longer holds the autoscaler back, after %v", n.name(), after)
	w.parts.Events.AutoscalerEvent(n.of, false, "MetricReleased", n.about(), message)
	delete(w.notified, n.logged())
	w.parts.Logger.Info("an autoscaler is no longer held back", "namespace", n.of.Namespace, "metric", n.name(),
		"autoscaler", n.of.Name, "after", after)
}

// about is the cause of an Event, equal at all replicas but for the edges of ten minutes.
func (n notice) about() string {
	since := n.spell().since
	if !n.spell().lasts() {
		since = n.spell().began
	}
	return fmt.Sprintf("%s %s %s %s/%s %d", n.metric.Source, n.metric.Name, n.metric.Selector, n.metric.ObjectKind,
		n.metric.ObjectName, since.Truncate(10*time.Minute).Unix())
}
