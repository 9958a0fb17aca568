package httpserver

import (
	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// ApplyOne applies the request's Sample and answers.
func (x *Request) ApplyOne(sync Sync) {
	x.Sample.Sender = x.Sender()
	a := x.TakeApplier()
	reason := a.Apply(&x.Sample)
	x.GiveApplier(a)
	if reason == metric.Pending && x.lacks(reason, &x.Sample).IsZero() && x.server.pending.Hold(&x.Sample, x.server.account) {
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
