package push

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// source is a body of several samples.
type source interface {
	// nextSample reads on: a sample, or the fault that is there instead; false at the end. The sample is valid
	// until the next call.
	nextSample() (*metric.Sample, *fault, bool)
	// lineNumber is where nextSample has read, counted from 1; 0: the body has no lines.
	lineNumber() int
}

// otherwise is a source whose samples may be of another kind than was guessed.
type otherwise interface{ Otherwise() bool }

// maxErrors is how many faults of a body are told; the others are counted.
const maxErrors = 20

// batchLines is how many samples are applied between two boundaries that the table can use.
const batchLines = 256

// readLines reads what a request of many samples says in its query, and its body.
func (x *exchange) readLines(may allowed) (p params, body []byte, f *fault) {
	p, f = x.parseParams(x.http.URI().QueryString(), may)
	if f == nil {
		f = x.checkSync(p.sync)
	}
	if f == nil {
		body, f = x.readBody()
	}
	return p, body, f
}

// apply applies what the source yields and answers.
func (x *exchange) apply(from source, sync bool) {
	t := x.applyAll(from)
	x.conclude(&t, sync)
}

// applyAll applies what the source yields: each sample enters the ledger once, whatever becomes of it.
func (x *exchange) applyAll(from source) tally {
	t, a := x.beginBatch()
	for n := 1; ; n++ {
		s, f, more := from.nextSample()
		if !more {
			break
		}
		if f != nil {
			x.enter(&t, f, from)
		} else {
			a = x.applyLine(&t, a, s, from)
		}
		if n%batchLines == 0 {
			a.Pass()
		}
	}
	x.endBatch(&t, a)
	return t
}

// beginBatch renews the caller's rights and takes an Applier.
func (x *exchange) beginBatch() (t tally, a *parked) {
	x.renew()
	return tally{sender: x.sender()}, x.takeApplier()
}

// endBatch gives the Applier back and counts what was applied.
func (x *exchange) endBatch(t *tally, a *parked) {
	x.giveApplier(a)
	x.countBatch(t.Applied)
}

// applyLine applies one sample, or has it held, and counts it. Where that depends on a right that nobody asked about lately,
// the Applier is given back while the API server is asked, and the sample applied again with the one that is returned.
func (x *exchange) applyLine(t *tally, a *parked, s *metric.Sample, from source) *parked {
	if s.Timestamp != 0 && s.Outdated(time.Now()) {
		x.enter(t, outdated(s), from)
		return a
	}
	s.Sender = t.sender
	reason := a.Apply(s)
	if reason == metric.KindConflict {
		if o, ok := from.(otherwise); ok && o.Otherwise() {
			reason = a.Apply(s)
		}
	}
	needs := x.lacks(reason, s)
	if !needs.IsZero() {
		x.giveApplier(a)
		f := x.ask(needs)
		a = x.takeApplier()
		if f == nil {
			reason, needs = a.Apply(s), metric.Right{}
		}
	}
	switch {
	case reason == metric.Applied:
		t.Applied++
	case !needs.IsZero():
		x.enter(t, x.unasked(s), from)
	case reason == metric.Pending && x.server.pending.Hold(s, x.server.account):
		t.Pending++
	case reason == metric.Pending || len(t.Errors) < maxErrors: // of what is early it matters that it is
		x.enter(t, x.refusal(reason, s), from)
	default: // nobody will read why
		x.enter(t, refusal(reason, s), from)
	}
	return a
}
