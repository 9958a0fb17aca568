package httpserver

import (
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/valyala/fasthttp"
)

// A Source yields the samples of a body.
type Source interface {
	// NextSample returns the next sample, or the fault in its place; false at the end. The sample
	// is valid until the next call. A fault may be Unworded.
	NextSample() (*metric.Sample, *Fault, bool)
	// Words makes the fault of which NextSample has just returned the Unworded one.
	Words() *Fault
	Lines
}

// Lines numbers the lines of a body.
type Lines interface {
	// LineNumber is the line that was read last, counted from 1; 0: the body has no lines.
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
			x.reject(&t, 1, f, nil, func() *Fault { return inLine(worded(f, from.Words), from) })
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
func (x *Request) ApplySample(t *Outcome, a *PooledApplier, s *metric.Sample, from Lines) *PooledApplier {
	if s.Dated != 0 && s.Outdated(time.Now()) {
		x.reject(t, 1, Unworded(metric.Outdated), s.Name, func() *Fault { return inLine(outdated(s), from) })
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
	ended := ""
	if reason == metric.Pending && x.server.trust != nil {
		ended = x.server.trust.ExplainEnded(s)
	}
	f := Unworded(reason)
	switch {
	case reason == metric.Applied:
		t.Applied++
		return a
	case !needs.IsZero():
		f = x.unasked(s)
	case ended != "": // sent again, it would be rejected again
		f = wrongScope("%s", ended)
	case reason == metric.Pending && x.server.pending.Hold(s, x.server.account):
		t.Pending++
		return a
	}
	words := func() *Fault { return x.Rejection(reason, s) }
	x.reject(t, 1, f, s.Name, func() *Fault { return inLine(worded(f, words), from) })
	return a
}

// ApplyOne applies the request's Sample and answers.
func (x *Request) ApplyOne(sync Sync) {
	x.Sample.Sender = x.Sender()
	a := x.TakeApplier()
	reason := a.Apply(&x.Sample)
	x.GiveApplier(a)
	if reason == metric.Pending && x.lacks(reason, &x.Sample).IsZero() &&
		x.server.pending.Hold(&x.Sample, x.server.account) {
		x.replyPending()
		return
	}
	if reason != metric.Applied {
		x.FailPush(x.Rejection(reason, &x.Sample))
		return
	}
	x.server.account.Count(metric.Applied)
	if sync != NoSync {
		if f := x.Sync(sync); f != nil {
			x.Reply(f.Status, PushAnswer{Error: f.Answer(), Applied: 1, Replica: x.Replica()})
			return
		}
	}
	x.ReplyApplied(1)
}

// replyPending answers a push of one sample that is held.
func (x *Request) replyPending() {
	why := x.server.explain(&x.Sample)
	if len(x.server.challenges) > 0 && x.caller.account == nil {
		if needs := x.server.trust.Needs(&x.Sample); !needs.IsZero() {
			why += "; " + x.server.hint(needs)
		}
	}
	x.Reply(fasthttp.StatusAccepted, PushAnswer{
		Pending: 1, Message: "it is held, and applied or rejected once its sender is known: " + why,
	})
}

// Rejection words why the table rejected a sample. If a pending sample could not be held, the
// client may push it again.
func (x *Request) Rejection(r metric.Reason, s *metric.Sample) *Fault {
	trust := x.server.trust
	switch {
	case r == metric.OverLimit:
		return x.overLimit(s)
	case r == metric.KindConflict:
		return x.kindConflict(s)
	case trust == nil:
	case r == metric.Pending && !x.lacks(r, s).IsZero():
		return x.unasked(s)
	case r == metric.Pending:
		return NotYet("it cannot be decided yet, and no more can be held: %s", x.server.explain(s))
	case r == metric.Identity:
		return x.forbidden(r, x.server.explain(s), trust.Needs(s))
	}
	return rejection(r, s)
}

// kindConflict names both kinds.
func (x *Request) kindConflict(s *metric.Sample) *Fault {
	there := metric.NoKind
	if x.server.kindOf != nil {
		there = x.server.kindOf(s)
	}
	return Rejected(metric.KindConflict, "%s %s", subjectOf(s), there.Conflict(s.Kind))
}

// overLimit names the limit that a new series exceeds.
func (x *Request) overLimit(s *metric.Sample) *Fault {
	if x.server.trust != nil {
		if why := x.server.trust.ExplainLimit(s); why != "" {
			return Rejected(metric.OverLimit, "%s", why)
		}
	}
	f := rejection(metric.OverLimit, s)
	if x.server.full != "" {
		f.Message += ": " + x.server.full
	}
	return f
}

func (s *Server) explain(sample *metric.Sample) string {
	if s.trust == nil {
		return "it is not known yet whose it is"
	}
	return s.trust.Explain(sample)
}

// appliers is a bounded free list of offline Appliers: there are many more connections than
// requests that apply at one moment, and each Applier costs the table memory. An atomic exchange
// takes or fills a slot, so no request waits for another. The goroutine that took an Applier owns
// it.
type appliers struct {
	fresh func() Applier
	slots []atomic.Pointer[PooledApplier]
	ended atomic.Bool
}

// PooledApplier boxes an Applier, so that a slot can hold a pointer.
type PooledApplier struct{ Applier }

// Applier has a cache of lines, for protocols whose series come with labels: it maps the labels of known series, as
// on the wire, to their series.
type Applier interface {
	receiver.Applier
	// LookupLines looks lines up for the other methods. The lines must not change until the next
	// LookupLines.
	LookupLines([]metric.Line)
	// KnownKind returns the kind of the series of the i-th line, or false if the line was never
	// seen.
	KnownKind(i int) (metric.Kind, bool)
	// ApplyKnownSample applies a sample, without name and labels, to the series of the i-th line,
	// which is known. It returns false if Apply has to be called, with name and labels.
	ApplyKnownSample(i int, s *metric.Sample) bool
}

func newAppliers(fresh func() Applier, n int) *appliers {
	return &appliers{fresh: fresh, slots: make([]atomic.Pointer[PooledApplier], n)}
}

// take returns an Applier that is online. near spreads the goroutines over the slots.
func (a *appliers) take(near uint64) *PooledApplier {
	n := uint64(len(a.slots))
	for i := range n {
		slot := &a.slots[(near+i)%n]
		if slot.Load() == nil {
			continue
		}
		if p := slot.Swap(nil); p != nil {
			p.Online()
			return p
		}
	}
	return &PooledApplier{a.fresh()}
}

// give returns an Applier after a batch: it is quiescent, then offline.
func (a *appliers) give(near uint64, p *PooledApplier) {
	p.Quiesce()
	p.Offline()
	n := uint64(len(a.slots))
	for i := range n {
		slot := &a.slots[(near+i)%n]
		if !a.ended.Load() && slot.Load() == nil && slot.CompareAndSwap(nil, p) {
			return
		}
	}
	p.Close()
}

// close closes the offline Appliers now, and the others when they are given back.
func (a *appliers) close() {
	a.ended.Store(true)
	for i := range a.slots {
		if p := a.slots[i].Swap(nil); p != nil {
			p.Close()
		}
	}
}
