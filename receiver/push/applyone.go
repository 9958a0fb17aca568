package push

import (
	"context"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// applyOne applies the exchange's sample and answers.
func (x *exchange) applyOne(sync bool) {
	x.sample.Sender = x.sender()
	a := x.takeApplier()
	reason := a.Apply(&x.sample)
	x.giveApplier(a)
	if reason == metric.Pending && x.lacks(reason, &x.sample).IsZero() && x.server.pending.Hold(&x.sample, x.server.account) {
		x.replyPending()
		return
	}
	if reason != metric.Applied {
		x.failPush(x.refusal(reason, &x.sample))
		return
	}
	x.server.account.Count(metric.Applied)
	if sync {
		if f := x.sync(); f != nil {
			x.reply(f.status, pushAnswer{Error: f.answer(), Applied: 1})
			return
		}
	}
	x.replyApplied(1)
}

// replyPending answers a push of one sample that is held.
func (x *exchange) replyPending() {
	why := x.server.explain(&x.sample)
	if len(x.server.challenges) > 0 && x.caller.account == nil {
		if needs := x.server.trust.Needs(&x.sample); !needs.IsZero() {
			why += "; " + x.server.hint(needs)
		}
	}
	x.reply(fasthttp.StatusAccepted, pushAnswer{
		Pending: 1, Message: "it is held, and applied or refused as soon as that can be decided: " + why,
	})
}

// refusal words what the table said about a sample; of one that finds no room among the pending, that it may come again.
func (x *exchange) refusal(r metric.Reason, s *metric.Sample) *fault {
	trust := x.server.trust
	switch {
	case r == metric.OverLimit:
		return x.overLimit(s)
	case trust == nil:
	case r == metric.Pending && !x.lacks(r, s).IsZero():
		return x.unasked(s)
	case r == metric.Pending:
		return notYet("it cannot be decided yet, and no more can be held: %s", x.server.explain(s))
	case r == metric.Identity:
		return x.forbidden(r, x.server.explain(s), trust.Needs(s))
	}
	return refusal(r, s)
}

// overLimit says which limit a new series would be over.
func (x *exchange) overLimit(s *metric.Sample) *fault {
	if x.server.trust != nil {
		if why := x.server.trust.ExplainLimit(s); why != "" {
			return refused(metric.OverLimit, "%s", why)
		}
	}
	f := refusal(metric.OverLimit, s)
	if x.server.full != "" {
		f.message += ": " + x.server.full
	}
	return f
}

func (s *httpServer) explain(sample *metric.Sample) string {
	if s.trust == nil {
		return "it is not known yet whose it is"
	}
	return s.trust.Explain(sample)
}

// sync waits for the disk. Requests in flight at shutdown still get their time.
func (x *exchange) sync() *fault {
	s := x.server
	ctx, cancel := context.WithTimeout(s.life, s.cfg.SyncTimeout)
	defer cancel()
	if err := s.syncer.Sync(ctx); err != nil {
		return &fault{
			status: fasthttp.StatusServiceUnavailable, reason: "sync",
			message: "it was applied and is served, but it is not on disk: " + err.Error(),
		}
	}
	return nil
}

// checkSync rejects ?sync=true if nothing is stored.
func (x *exchange) checkSync(sync bool) *fault {
	if !sync || x.server.syncer != nil {
		return nil
	}
	return &fault{
		status: fasthttp.StatusBadRequest, reason: "sync", uncounted: true,
		message: "sync=true cannot be kept: this server stores nothing on disk; nothing was done",
	}
}
