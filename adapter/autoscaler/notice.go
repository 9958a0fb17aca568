package autoscaler

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// maxNotices bounds the notices of a round. The others are told in the next ones.
const maxNotices = 20

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

func (n notice) logged() logged { return logged{n.of.Namespace, n.metric.Name, n.fault} }

// tell writes notices to the log and as Events. Run's goroutine alone calls it, and it alone changes
// states.
func (w *Watcher) tell(notices []notice, now time.Time) {
	for one, at := range w.notified {
		if now.Sub(at) >= repeat {
			delete(w.notified, one)
		}
	}
	for _, one := range notices[:min(len(notices), maxNotices)] {
		switch lasts := one.spell().lasts(); {
		case one.fault == missing && lasts:
			w.tellMissing(one, now)
		case one.fault == missing:
			w.tellAvailable(one, now)
		case lasts:
			w.tellHeldBack(one, now)
		default:
			w.tellReleased(one, now)
		}
		w.mu.Lock()
		one.spell().tell(now)
		w.mu.Unlock()
	}
}

func (w *Watcher) tellMissing(one notice, now time.Time) {
	why := one.state.why + "."
	if w.parts.Hint != nil {
		if hint := w.parts.Hint(one.of, one.metric); hint != "" {
			why += " " + hint
		}
	}
	message := fmt.Sprintf("%s metric %q has no value: %s More: sluice explain hpa/%s -n %s",
		one.metric.Source, one.metric.Name, why, one.of.Name, one.of.Namespace)
	w.parts.Events.AutoscalerEvent(one.of, true, "MetricMissing", one.about(), message)
	w.warn(one, now, "a metric of an autoscaler has no value", strings.TrimSuffix(why, "."))
}

// warn writes a warning, unless one about another autoscaler of the namespace and the metric is recent.
func (w *Watcher) warn(one notice, now time.Time, text, why string) {
	if _, recently := w.notified[one.logged()]; recently {
		return
	}
	w.notified[one.logged()] = now
	w.parts.Logger.Warn(text, "namespace", one.of.Namespace, "metric", one.metric.Name,
		"autoscaler", one.of.Name, "source", one.metric.Source, "since", one.spell().since.UTC().Truncate(time.Second),
		"why", why)
}

func (w *Watcher) tellAvailable(one notice, now time.Time) {
	value, after := w.parts.Quantity(one.state.value), now.Sub(one.state.lack.began).Round(time.Second)
	message := fmt.Sprintf("%s metric %q has a value again after %v: %s", one.metric.Source, one.metric.Name, after, value)
	w.parts.Events.AutoscalerEvent(one.of, false, "MetricAvailable", one.about(), message)
	delete(w.notified, one.logged())
	w.parts.Logger.Info("a metric of an autoscaler has a value again", "namespace", one.of.Namespace,
		"metric", one.metric.Name,
		"autoscaler", one.of.Name, "after", after, "value", value)
}

func (w *Watcher) tellHeldBack(one notice, now time.Time) {
	message := fmt.Sprintf("Pods metric %q holds the autoscaler back: %s. More: sluice explain hpa/%s -n %s",
		one.metric.Name, one.state.held.Why, one.of.Name, one.of.Namespace)
	w.parts.Events.AutoscalerEvent(one.of, true, "MetricHeldBack", one.about(), message)
	w.warn(one, now, "an autoscaler is held back by pods that lack a value or a part of it", one.state.held.Why)
}

func (w *Watcher) tellReleased(one notice, now time.Time) {
	after := now.Sub(one.state.hold.began).Round(time.Second)
	message := fmt.Sprintf("Pods metric %q no longer holds the autoscaler back, after %v", one.metric.Name, after)
	w.parts.Events.AutoscalerEvent(one.of, false, "MetricReleased", one.about(), message)
	delete(w.notified, one.logged())
	w.parts.Logger.Info("an autoscaler is no longer held back", "namespace", one.of.Namespace, "metric", one.metric.Name,
		"autoscaler", one.of.Name, "after", after)
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
