package wake

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Outcome is the answer of the API server to an attempt.
type Outcome string

const (
	Woken     Outcome = "woken"
	Awake     Outcome = "awake"     // the target had replicas already
	Forbidden Outcome = "forbidden" // Sluice lacks the right
	Gone      Outcome = "gone"      // there is no such target
	Refused   Outcome = "refused"   // another answer, which would be given again
	Conflict  Outcome = "conflict"  // others change the target
	Failed    Outcome = "failed"    // the API server fails at this change, and answers others
	Silent    Outcome = "silent"    // no answer, or the API server is busy
)

// outcomes are all Outcomes.
var outcomes = []Outcome{Woken, Awake, Forbidden, Gone, Refused, Conflict, Failed, Silent}

const (
	// patience is how long an attempt waits for the answer. The autoscaler's controller wakes the
	// target meanwhile, if it gets answers.
	patience = 5 * time.Second
	// The pause after an answer that would be given again; after a conflict; after a fault of one change; and the
	// first and the longest one after no answer, in which no target is woken.
	pauseRefused  = time.Minute
	pauseConflict = time.Second
	pauseFailed   = 10 * time.Second
	pauseSilent   = 250 * time.Millisecond
	mostSilent    = 10 * time.Second
)

// flight holds the attempts that wait for an answer. It belongs to Run.
type flight struct {
	n      int
	landed chan attempt
	// until is the end of the pause after no answer, pause its length.
	until time.Time
	pause time.Duration
	// loggedForbidden are the kinds of targets whose missing right was logged, until they are woken.
	loggedForbidden map[string]bool
}

func newFlight() flight {
	return flight{landed: make(chan attempt, mostInFlight), loggedForbidden: map[string]bool{}}
}

// end waits for all attempts, whose context has ended.
func (f *flight) end() {
	for ; f.n > 0; f.n-- {
		<-f.landed
	}
}

// attempt is one to wake the target of an autoscaler.
type attempt struct {
	of       *armed
	document *inspect.Autoscaler
	metric   inspect.AutoscalerMetric
	value    metric.Number
	outcome  Outcome
	err      error
}

// dispatch begins attempts for those that wait. Values are read again: a queue may be long.
func (w *Waker) dispatch(ctx context.Context, now time.Time) {
	for w.flight.n < mostInFlight && !now.Before(w.flight.until) {
		a, is := w.line.next()
		if !is {
			return
		}
		if w.armed[a.key] != a { // deleted, changed, or no longer at zero
			w.line.done(a.namespace())
			continue
		}
		if !w.read(a) {
			a.busy = false
			w.line.done(a.namespace())
			continue
		}
		w.flight.n++
		try := attempt{of: a, document: a.document, metric: *a.positive, value: a.value}
		go func() {
			bounded, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			try.outcome, try.err = w.parts.Scale(bounded, try.document)
			w.flight.landed <- try
		}()
	}
}

// settle records the answer to an attempt.
func (w *Waker) settle(try attempt, now time.Time) {
	w.flight.n--
	a := try.of
	a.busy = false
	w.line.done(a.namespace())
	w.count.outcome(try.outcome)
	if try.outcome != Silent && w.flight.pause > 0 {
		w.flight.pause = 0
		w.parts.Logger.Info("the API server answers attempts to wake targets again")
	}
	switch try.outcome {
	case Woken, Awake:
		w.woke(&try, now)
	case Conflict:
		a.wait(now.Add(pauseConflict))
		w.say(a, inspect.WakeFailing, try.err.Error())
	case Silent:
		w.rest(&try, now)
	case Failed:
		a.wait(now.Add(pauseFailed))
		w.refused(&try)
	default:
		a.wait(now.Add(pauseRefused))
		w.refused(&try)
	}
}

// woke begins the cooldown of a target that runs now.
func (w *Waker) woke(try *attempt, now time.Time) {
	until := now.Add(w.cfg.Cooldown)
	w.cool(try.of.target(), until, now)
	try.of.wait(until)
	try.of.record.told = ""
	w.mu.Lock()
	try.of.record.state, try.of.record.why, try.of.record.last = inspect.WakeCooldown, "", now
	w.mu.Unlock()
	if try.outcome == Awake {
		return
	}
	a := try.document
	delete(w.flight.loggedForbidden, a.TargetKind)
	because := fmt.Sprintf("%s metric %q is %s", try.metric.Source, try.metric.Name, w.parts.Quantity(try.value))
	w.parts.Events.WakeEvent(a, false, "Woken", fmt.Sprint(now.Unix()),
		fmt.Sprintf("Set %s/%s from 0 to 1 replica: %s. The autoscaler sets all others.", a.TargetKind,
			a.TargetName, because))
	w.parts.Logger.Info("set the first replica of an autoscaler's target", "namespace", a.Namespace, "autoscaler", a.Name,
		"kind", a.TargetKind, "target", a.TargetName, "because", because)
}

// cool begins a cooldown, and forgets those that have ended.
func (w *Waker) cool(t target, until, now time.Time) {
	w.cooling[t] = until
	if len(w.cooling) <= 2*len(w.armed) {
		return
	}
	for key, end := range w.cooling {
		if !now.Before(end) {
			delete(w.cooling, key)
		}
	}
}

// refused tells of an answer that would be given again, once for each autoscaler.
func (w *Waker) refused(try *attempt) {
	armed, a := try.of, try.document
	state := inspect.WakeFailing
	if try.outcome == Forbidden {
		state = inspect.WakeForbidden
	}
	w.say(armed, state, try.err.Error())
	if armed.record.told == try.outcome {
		return
	}
	armed.record.told = try.outcome
	w.parts.Events.WakeEvent(a, true, "CannotWake", string(try.outcome),
		fmt.Sprintf("Cannot set the first replica of %s/%s: %v. The autoscaler does so at its next sync.", a.TargetKind,
			a.TargetName, try.err))
	if try.outcome == Forbidden {
		if w.flight.loggedForbidden[a.TargetKind] {
			return
		}
		w.flight.loggedForbidden[a.TargetKind] = true
	}
	w.parts.Logger.Warn("cannot set the first replica of an autoscaler's target", "namespace", a.Namespace,
		"autoscaler", a.Name,
		"kind", a.TargetKind, "target", a.TargetName, "err", try.err)
}

// rest has all attempts wait: the API server does not answer, or is busy.
func (w *Waker) rest(try *attempt, now time.Time) {
	f := &w.flight
	if f.pause == 0 {
		w.parts.Logger.Warn("the API server does not answer an attempt to wake a target; attempts go on with pauses",
			"namespace", try.document.Namespace, "autoscaler", try.document.Name, "err", try.err)
	}
	if !now.Before(f.until) { // several attempts may have failed at once
		f.pause = min(max(2*f.pause, pauseSilent), mostSilent)
		f.until = now.Add(f.pause)
	}
	try.of.wait(f.until)
	w.say(try.of, inspect.WakeFailing, try.err.Error())
}
