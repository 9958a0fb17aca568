package httpserver

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// tally is what became of a body.
type Outcome struct {
	PushAnswer
	sender *metric.Sender
	// Of the refused:
	limited int // those over a limit
	foreign int // those that the sender may not speak of
	Early   int // those of which that cannot be said yet, and that found no room to be held
}

// enter counts one sample that was refused: in the answer and in the ledger.
func (x *Request) RejectSample(t *Outcome, f *Fault, from Source) {
	x.server.account.Count(f.Counted)
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
		case f.Status == fasthttp.StatusForbidden, f.Status == fasthttp.StatusUnauthorized: // and not of an object that cannot be
			t.foreign++
		}
	}
	t.Refused++
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

// denial is why a body was refused of which all that was refused was so for its sender; else nil. That it should come again is
// said only of one of which nothing was taken: the rest would count twice.
func (x *Request) Denial(t *Outcome) *Fault {
	switch {
	case t.Refused == 0 || t.foreign+t.Early < t.Refused:
		return nil
	case t.Early == t.Refused && t.Applied+t.Pending == 0:
		return NotYet("")
	case t.Early == t.Refused:
		return nil
	}
	f := Rejected(metric.Identity, "")
	if x.caller.account == nil && len(x.server.challenges) > 0 {
		f.Status, f.challenges = fasthttp.StatusUnauthorized, x.server.challenges
	}
	return f
}

// conclude answers a body of lines. What is ignored is so by the server's own configuration, and no error.
func (x *Request) conclude(t *Outcome, sync bool) {
	status := fasthttp.StatusOK
	f := x.Denial(t)
	switch {
	case f != nil:
		x.FailHeaders(f)
		status = f.Status
	case t.Refused > 0 && t.limited == t.Refused:
		status = fasthttp.StatusTooManyRequests
	case t.Refused > 0:
		status = fasthttp.StatusBadRequest
	case t.Pending > 0:
		status = fasthttp.StatusAccepted
		t.Message = "what is pending is held, and applied or refused as soon as that can be decided"
	}
	x.ReplyOutcome(status, t, sync)
}

// replyTally answers with what became of a body, and waits for the disk if it was asked for.
func (x *Request) ReplyOutcome(status int, t *Outcome, sync bool) {
	if t.Refused > 0 {
		first := t.Errors[0]
		first.Message = fmt.Sprintf("%d of %d samples were refused, %d stay applied; the first: %s", t.Refused, t.Samples(), t.Applied, first.Message)
		t.Error = &first
	}
	if sync && t.Applied > 0 {
		if f := x.Sync(); f != nil {
			status, t.Error = f.Status, f.Answer()
		}
	}
	x.Reply(status, t.PushAnswer)
}

// samples is how many there were.
func (t *Outcome) Samples() int { return t.Refused + t.Applied + t.Ignored + t.Pending }
