package httpserver

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// Outcome counts what became of the samples of a body.
type Outcome struct {
	PushAnswer
	// Sender is the sender of the samples.
	Sender *metric.Sender
	// Of the rejected samples:
	limited int // over a limit
	foreign int // of objects that the sender may not push to
	Early   int // of senders not known yet, that could not be held
}

// RejectSample counts one rejected sample in the answer and in the accounts.
func (x *Request) RejectSample(t *Outcome, f *Fault, from Source) { x.rejectNamed(t, f, from, nil) }

// rejectNamed is RejectSample with the name of the metric.
func (x *Request) rejectNamed(t *Outcome, f *Fault, from Source, name []byte) {
	x.server.account.Count(f.Counted)
	x.recordRejected(f.Counted, name, f.Message, 1)
	switch f.Counted {
	case metric.Ignored:
		t.Ignored++
		return
	case metric.OverLimit:
		t.limited++
	case metric.Identity:
		switch {
		case f.retryAfter:
			t.Early++
		case f.Status == fasthttp.StatusForbidden, f.Status == fasthttp.StatusUnauthorized: // not those of an impossible object
			t.foreign++
		}
	}
	t.Rejected++
	if len(t.Errors) == MaxErrors {
		t.ErrorsLeftOut++
		return
	}
	f.Line = from.LineNumber()
	if f.Reason != unavailableReason {
		f.Reason = f.Counted.String()
	}
	t.Errors = append(t.Errors, *f.Answer())
}

// Denial returns the fault of a body whose rejected samples were all rejected because of the
// sender; otherwise nil. The client may send the body again only if no sample was taken, or some
// would count twice.
func (x *Request) Denial(t *Outcome) *Fault {
	switch {
	case t.Rejected == 0 || t.foreign+t.Early < t.Rejected:
		return nil
	case t.Early == t.Rejected && t.Applied+t.Pending == 0:
		return NotYet("")
	case t.Early == t.Rejected:
		return nil
	}
	f := Rejected(metric.Identity, "")
	if x.caller.account == nil && len(x.server.challenges) > 0 {
		f.Status, f.challenges = fasthttp.StatusUnauthorized, x.server.challenges
	}
	return f
}

// conclude answers a body of lines. Ignored samples are no error: the server's configuration
// ignores them.
func (x *Request) conclude(t *Outcome, sync Sync) {
	status := fasthttp.StatusOK
	f := x.Denial(t)
	switch {
	case f != nil:
		x.FailHeaders(f)
		status = f.Status
	case t.Rejected > 0 && t.limited == t.Rejected:
		status = fasthttp.StatusTooManyRequests
	case t.Rejected > 0:
		status = fasthttp.StatusBadRequest
	case t.Pending > 0:
		status = fasthttp.StatusAccepted
		t.Message = "pending samples are held, and applied or rejected once their sender is known"
	}
	x.ReplyOutcome(status, t, sync)
}

// ReplyOutcome answers with the counts of a body, and waits for the disk first if the client asked
// for it.
func (x *Request) ReplyOutcome(status int, t *Outcome, sync Sync) {
	if t.Rejected > 0 {
		first := t.Errors[0]
		first.Message = fmt.Sprintf("%d of %d samples were rejected, %d stay applied; the first: %s", t.Rejected, t.Samples(), t.Applied, first.Message)
		t.Error = &first
	}
	if sync != NoSync && t.Applied > 0 {
		if f := x.Sync(sync); f != nil {
			status, t.Error = f.Status, f.Answer()
		}
		t.Replica = x.Replica()
	}
	x.Reply(status, t.PushAnswer)
}

// Samples is how many samples the body had.
func (t *Outcome) Samples() int { return t.Rejected + t.Applied + t.Ignored + t.Pending }
