package httpserver

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// source is a body of several samples.
type Source interface {
	// nextSample reads on: a sample, or the fault that is there instead; false at the end. The sample is valid
	// until the next call.
	NextSample() (*metric.Sample, *Fault, bool)
	// lineNumber is where nextSample has read, counted from 1; 0: the body has no lines.
	LineNumber() int
}

// otherwise is a source whose samples may be of another kind than was guessed.
type otherKind interface{ OtherKind() bool }

// maxErrors is how many faults of a body are told; the others are counted.
const MaxErrors = 20

// batchLines is how many samples are applied between two boundaries that the table can use.
const BatchLines = 256

// readLines reads what a request of many samples says in its query, and its body.
func (x *Request) ReadQueryAndBody(may ParamSet) (p Params, body []byte, f *Fault) {
	p, f = x.ParseParams(x.HTTP.URI().QueryString(), may)
	if f == nil {
		f = x.CheckSync(p.Sync)
	}
	if f == nil {
		body, f = x.ReadBody()
	}
	return p, body, f
}

// apply applies what the source yields and answers.
func (x *Request) Apply(from Source, sync bool) {
	t := x.ApplyAll(from)
	x.conclude(&t, sync)
}

// applyAll applies what the source yields: each sample enters the ledger once, whatever becomes of it.
func (x *Request) ApplyAll(from Source) Outcome {
	t, a := x.BeginBatch()
	for n := 1; ; n++ {
		s, f, more := from.NextSample()
		if !more {
			break
		}
		if f != nil {
			x.RejectSample(&t, f, from)
		} else {
			a = x.ApplySample(&t, a, s, from)
		}
		if n%BatchLines == 0 {
			a.Quiesce()
		}
	}
	x.EndBatch(&t, a)
	return t
}

// beginBatch renews the caller's rights and takes an Applier.
func (x *Request) BeginBatch() (t Outcome, a *PooledApplier) {
	x.renew()
	return Outcome{sender: x.Sender()}, x.TakeApplier()
}

// endBatch gives the Applier back and counts what was applied.
func (x *Request) EndBatch(t *Outcome, a *PooledApplier) {
	x.GiveApplier(a)
	x.CountBatch(t.Applied)
}

// applyLine applies one sample, or has it held, and counts it. Where that depends on a right that nobody asked about lately,
// the Applier is given back while the API server is asked, and the sample applied again with the one that is returned.
func (x *Request) ApplySample(t *Outcome, a *PooledApplier, s *metric.Sample, from Source) *PooledApplier {
	if s.Timestamp != 0 && s.Outdated(time.Now()) {
		x.RejectSample(t, outdated(s), from)
		return a
	}
	s.Sender = t.sender
	reason := a.Apply(s)
	if reason == metric.KindConflict {
		if o, ok := from.(otherKind); ok && o.OtherKind() {
			reason = a.Apply(s)
		}
	}
	needs := x.lacks(reason, s)
	if !needs.IsZero() {
		x.GiveApplier(a)
		f := x.Ask(needs)
		a = x.TakeApplier()
		if f == nil {
			reason, needs = a.Apply(s), metric.Right{}
		}
	}
	switch {
	case reason == metric.Applied:
		t.Applied++
	case !needs.IsZero():
		x.RejectSample(t, x.unasked(s), from)
	case reason == metric.Pending && x.server.pending.Hold(s, x.server.account):
		t.Pending++
	case reason == metric.Pending || len(t.Errors) < MaxErrors: // of what is early it matters that it is
		x.RejectSample(t, x.Rejection(reason, s), from)
	default: // nobody will read why
		x.RejectSample(t, rejection(reason, s), from)
	}
	return a
}
