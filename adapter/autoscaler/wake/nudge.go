package wake

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// All autoscalers together get a nudge every nudgeEvery over time, and nudgesAtOnce of them at once. The
// controller's own client sends 20 requests a second by default, and each nudge costs it some.
const (
	nudgeEvery   = time.Second / 20
	nudgesAtOnce = 300
)

// The outcomes of nudges beside Forbidden, Gone, Refused, Conflict (another replica was first), Failed and Silent.
const (
	Nudged Outcome = "nudged"
	// Ineffective: the change did not become a new generation. The API server counts none (any more).
	Ineffective Outcome = "ineffective"
)

// pace spaces attempts, and stops them while the API server doesn't answer.
type pace struct {
	next  time.Time     // when nudges of nudgeEvery each would be through
	until time.Time     // the end of the pause after no answer
	pause time.Duration // its length; 0: the last attempt was answered
}

// take reports whether an attempt may begin.
func (p *pace) take(now time.Time) bool {
	earliest := now.Add(-nudgesAtOnce * nudgeEvery)
	if now.Before(p.until) || p.next.After(now) {
		return false
	}
	if p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(nudgeEvery)
	return true
}

// dispatch begins attempts for those that wait. Values are read again: a queue may be long.
func (n *Nudger) dispatch(ctx context.Context, now time.Time) {
	for n.flights < mostInFlight && n.line.waits() && n.pace.take(now) {
		f, _ := n.line.next()
		if n.followed[f.key] != f || !n.wants(f, now) {
			f.busy = false
			n.line.done(f.namespace())
			continue
		}
		n.flights++
		go n.try(ctx, landing{of: f, document: f.document, wanted: f.wanted})
	}
}

func (n *Nudger) try(ctx context.Context, l landing) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.document.Instant == nil {
		l.outcome, l.err = n.parts.TakeBack(bounded, l.document)
	} else {
		l.generation, l.outcome, l.err = n.parts.Nudge(bounded, l.document)
	}
	n.landed <- l
}

// settle records the answer to an attempt.
func (n *Nudger) settle(l *landing, now time.Time) {
	n.flights--
	f := l.of
	f.busy = false
	n.line.done(f.namespace())
	if l.outcome != Silent {
		n.pace.pause = 0
	}
	if l.document.Instant != nil {
		n.count.attempted(l.outcome)
	}
	switch l.outcome {
	case Nudged:
		n.nudged(l, now)
	case Conflict: // another replica was first, or the spec is another: the next document says
		f.next = now.Add(min(n.cfg.Interval, pauseConflict))
		f.changed = true
	case Silent:
		n.pace.pause = min(max(2*n.pace.pause, pauseSilent), mostSilent)
		n.pace.until = now.Add(n.pace.pause)
		f.changed = true
		n.say(f, inspect.InstantFailing, l.err.Error())
	case Failed:
		f.next, f.changed = now.Add(pauseFailed), true
		n.refused(l)
	default:
		f.next, f.changed = now.Add(pauseRefused), true
		n.refused(l)
	}
}

// nudged records a nudge. What was taken back is not heard of again.
func (n *Nudger) nudged(l *landing, now time.Time) {
	f, a := l.of, l.document
	f.told = ""
	if a.Instant == nil {
		f.next = now.Add(pauseConflict) // until the new document is here
		n.parts.Logger.Info("took back what nudges had left in an autoscaler's spec", "namespace", a.Namespace,
			"autoscaler", a.Name)
		return
	}
	f.last = &inspect.Nudge{At: now, Because: l.wanted.Because, From: a.ReplicasSet(), Want: l.wanted.Replicas,
		Generation: l.generation}
	f.changed = true
	n.say(f, inspect.InstantWatching, "")
	if f.document.ObservedGeneration >= l.generation { // the controller was faster than the API server's answer
		n.adopt(f, f.document, now)
	}
	n.parts.Logger.Debug("nudged an autoscaler's controller", "namespace", a.Namespace, "autoscaler", a.Name,
		"from", a.ReplicasSet(), "want", l.wanted.Replicas, "because", l.wanted.Because)
}

// refused tells of an answer that would be given again, once for each autoscaler and outcome.
func (n *Nudger) refused(l *landing) {
	f, a := l.of, l.document
	state := inspect.InstantFailing
	if l.outcome == Forbidden {
		state = inspect.InstantForbidden
	}
	n.say(f, state, l.err.Error())
	if f.told == l.outcome {
		return
	}
	f.told = l.outcome
	n.parts.Events.WakeEvent(a, true, "CannotNudge", string(l.outcome),
		fmt.Sprintf("Cannot nudge the controller: %v. It looks at its next sync.", l.err))
	n.parts.Logger.Warn("cannot nudge an autoscaler's controller", "namespace", a.Namespace, "autoscaler",
		a.Name, "err", l.err)
}
