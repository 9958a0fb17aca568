package httpserver

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A Source yields the samples of a body.
type Source interface {
	// NextSample returns the next sample, or the fault in its place; false at the end. The sample
	// is valid until the next call.
	NextSample() (*metric.Sample, *Fault, bool)
	// LineNumber is the line that NextSample has read, counted from 1; 0: the body has no lines.
	LineNumber() int
}

// otherKind is a Source that guesses kinds, and has a second guess.
type otherKind interface{ OtherKind() bool }

// MaxErrors is how many faults of a body the answer lists; the others are counted.
const MaxErrors = 20

// BatchLines is how many samples are applied between two quiescent states.
const BatchLines = 256

// ReadQueryAndBody reads the query's parameters and the body of a request with many samples.
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

// Apply applies the samples of a Source and answers.
func (x *Request) Apply(from Source, sync Sync) {
	t := x.ApplyAll(from)
	x.conclude(&t, sync)
}

// ApplyAll applies the samples of a Source and counts each once.
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

// BeginBatch renews the caller's rights and takes an Applier.
func (x *Request) BeginBatch() (t Outcome, a *PooledApplier) {
	x.renew()
	return Outcome{Sender: x.Sender()}, x.TakeApplier()
}

// EndBatch returns the Applier and counts the applied samples.
func (x *Request) EndBatch(t *Outcome, a *PooledApplier) {
	x.GiveApplier(a)
	x.CountBatch(t.Applied)
}

// ApplySample applies or holds one sample, and counts it. If the sample depends on a right that was
// not checked lately, the Applier is given back while the API server is asked; the sample is then
// applied with the Applier that ApplySample returns.
func (x *Request) ApplySample(t *Outcome, a *PooledApplier, s *metric.Sample, from Source) *PooledApplier {
	if s.Dated != 0 && s.Outdated(time.Now()) {
		x.rejectNamed(t, outdated(s), from, s.Name)
		return a
	}
	s.Sender = t.Sender
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
		x.rejectNamed(t, x.unasked(s), from, s.Name)
	case reason == metric.Pending && x.server.pending.Hold(s, x.server.account):
		t.Pending++
	case reason == metric.Pending || len(t.Errors) < MaxErrors: // early samples are counted apart, however many
		x.rejectNamed(t, x.Rejection(reason, s), from, s.Name)
	default: // the answer does not show why
		x.rejectNamed(t, rejection(reason, s), from, s.Name)
	}
	return a
}
