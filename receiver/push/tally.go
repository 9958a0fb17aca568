package push

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// tally is what became of a body.
type tally struct {
	pushAnswer
	sender *metric.Sender
	// Of the refused:
	limited int // those over a limit
	foreign int // those that the sender may not speak of
	early   int // those of which that cannot be said yet, and that found no room to be held
}

// enter counts one sample that was refused: in the answer and in the ledger.
func (x *exchange) enter(t *tally, f *fault, from source) {
	x.server.account.Count(f.counted)
	switch f.counted {
	case metric.Ignored:
		t.Ignored++
		return
	case metric.OverLimit:
		t.limited++
	case metric.Identity:
		switch {
		case f.retryAfter:
			t.early++
		case f.status == fasthttp.StatusForbidden, f.status == fasthttp.StatusUnauthorized: // and not of an object that cannot be
			t.foreign++
		}
	}
	t.Refused++
	if len(t.Errors) == maxErrors {
		t.ErrorsLeftOut++
		return
	}
	f.line = from.lineNumber()
	if f.reason != unavailableReason {
		f.reason = f.counted.String()
	}
	t.Errors = append(t.Errors, *f.answer())
}

// denial is why a body was refused of which all that was refused was so for its sender; else nil. That it should come again is
// said only of one of which nothing was taken: the rest would count twice.
func (x *exchange) denial(t *tally) *fault {
	switch {
	case t.Refused == 0 || t.foreign+t.early < t.Refused:
		return nil
	case t.early == t.Refused && t.Applied+t.Pending == 0:
		return notYet("")
	case t.early == t.Refused:
		return nil
	}
	f := refused(metric.Identity, "")
	if x.caller.account == nil && len(x.server.challenges) > 0 {
		f.status, f.challenges = fasthttp.StatusUnauthorized, x.server.challenges
	}
	return f
}

// conclude answers a body of lines. What is ignored is so by the server's own configuration, and no error.
func (x *exchange) conclude(t *tally, sync bool) {
	status := fasthttp.StatusOK
	f := x.denial(t)
	switch {
	case f != nil:
		x.failHeaders(f)
		status = f.status
	case t.Refused > 0 && t.limited == t.Refused:
		status = fasthttp.StatusTooManyRequests
	case t.Refused > 0:
		status = fasthttp.StatusBadRequest
	case t.Pending > 0:
		status = fasthttp.StatusAccepted
		t.Message = "what is pending is held, and applied or refused as soon as that can be decided"
	}
	x.replyTally(status, t, sync)
}

// replyTally answers with what became of a body, and waits for the disk if it was asked for.
func (x *exchange) replyTally(status int, t *tally, sync bool) {
	if t.Refused > 0 {
		first := t.Errors[0]
		first.Message = fmt.Sprintf("%d of %d samples were refused, %d stay applied; the first: %s", t.Refused, t.samples(), t.Applied, first.Message)
		t.Error = &first
	}
	if sync && t.Applied > 0 {
		if f := x.sync(); f != nil {
			status, t.Error = f.status, f.answer()
		}
	}
	x.reply(status, t.pushAnswer)
}

// samples is how many there were.
func (t *tally) samples() int { return t.Refused + t.Applied + t.Ignored + t.Pending }
