package httpserver

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog"
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

// RejectSamples counts n samples that are rejected for a reason in the answer and in the accounts. words makes the fault if
// somebody sees it.
func (x *Request) RejectSamples(t *Outcome, n int, r metric.Reason, words func() *Fault) {
	x.reject(t, n, Unworded(r), nil, words)
}

// reject is RejectSamples with the fault as far as it counts, and the name of the metric. A body can have millions of faults,
// of which the answer shows a few, and the record a few of each second.
func (x *Request) reject(t *Outcome, n int, f *Fault, name []byte, words func() *Fault) {
	x.server.account.CountN(f.Counted, uint64(n))
	switch f.Counted {
	case metric.Ignored:
		t.Ignored += n
		return
	case metric.OverLimit:
		t.limited += n
	case metric.Identity:
		switch {
		case f.retryAfter:
			t.Early += n
		case f.Status == fasthttp.StatusForbidden, f.Status == fasthttp.StatusUnauthorized: // not those of an impossible object
			t.foreign += n
		}
	}
	t.Rejected += n
	shown, weight := min(n, MaxErrors-len(t.Errors)), x.server.recorder.weight(f.Counted)
	t.ErrorsLeftOut += n - shown
	if shown == 0 && weight == 0 {
		return
	}
	f = words()
	x.recordRejected(f, name, weight*uint64(n))
	if f.Reason != unavailableReason {
		f.Reason = f.Counted.String()
	}
	for range shown {
		t.Errors = append(t.Errors, *f.Answer())
	}
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
		first.Message = fmt.Sprintf("%d of %d samples were rejected, %d stay applied; the first: %s", t.Rejected, t.Samples(),
			t.Applied, first.Message)
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

// recorder remembers senders and rejected samples for lists. Without a cluster, senders are the
// addresses of connections.
type recorder struct {
	senders    *record.Senders    // may be nil
	rejections *record.Rejections // may be nil
	// sampled counts the rejections of a second by reason, so that a flood is recorded in part.
	sampled [metric.NumReasons]ratelog.Limiter
}

var addressSeed = maphash.MakeSeed()

// pusher is the sender of a request for records.
func (x *Request) pusher() *metric.Sender {
	if s := x.Sender(); s != nil {
		return s
	}
	if x.unchecked.Key == 0 {
		from := x.peer().Remote
		x.unchecked = metric.Sender{Key: maphash.Comparable(addressSeed, from) | metric.LocalKey, Address: from}
	}
	return &x.unchecked
}

// heard records that the sender pushes.
func (x *Request) heard() {
	if r := &x.server.recorder; r.senders != nil {
		r.senders.Heard(x.pusher())
	}
}

// weight is how many samples a rejected one stands for in the record; 0: it is not recorded.
func (r *recorder) weight(reason metric.Reason) uint64 {
	if r.rejections == nil {
		return 0
	}
	return ratelog.Weight(r.sampled[reason].Allow())
}

// recordRejected records n rejected samples of a metric, whose name may be unknown; 0: none.
func (x *Request) recordRejected(f *Fault, name []byte, n uint64) {
	if n == 0 {
		return
	}
	x.server.recorder.rejections.Add(&record.Sample{Receiver: "http", Sender: x.pusher(), Reason: f.Counted, Metric: name,
		Why: func() string { return f.masked(x.Path.Metric) }}, n)
}

// CountRejected counts n rejected samples of a metric, whose name may be empty.
func (x *Request) CountRejected(f *Fault, name string, n int) {
	if n > 0 {
		x.server.account.CountN(f.Counted, uint64(n))
		x.recordRejected(f, []byte(name), x.server.recorder.weight(f.Counted)*uint64(n))
	}
}

// libraryLog writes fasthttp's messages to our log, unquoted: the log quotes them. They quote what the client
// sent, which is left out: a client of another protocol may have sent credentials.
type libraryLog struct {
	log *slog.Logger
	ratelog.Limiter
}

const maxLogged = 512

var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

// Printf implements fasthttp.Logger.
func (l *libraryLog) Printf(format string, args ...any) {
	suppressed, ok := l.Allow()
	if !ok {
		return
	}
	message := quotation.ReplaceAllStringFunc(fmt.Sprintf(format, args...), func(quoted string) string {
		if _, err := netip.ParseAddrPort(strings.Trim(quoted, `"`)); err == nil {
			return quoted // an end of the connection
		}
		return `"***"`
	})
	if len(message) > maxLogged {
		message = message[:maxLogged]
	}
	l.log.Warn("push: connection failed", "error", message, "suppressed", suppressed)
}
