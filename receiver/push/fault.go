package push

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// fault is why a request, or one line of it, was refused. It is made on the error's way only.
type fault struct {
	status  int
	reason  string        // for the reader
	counted metric.Reason // for the ledger; see count
	// uncounted: the request carried no sample, or never got to saying what it carries.
	uncounted bool
	message   string
	line      int // 1 is the first; 0: the fault is not in a line
	offset    int
	located   bool // offset says something

	allow      string   // of a 405
	paths      []string // of a 404
	close      bool     // part of the body is still on the wire
	retryAfter bool
	challenges []string // of a 401
}

func (f *fault) Error() string { return f.reason + ": " + f.message }

// refused makes the fault of a sample.
func refused(r metric.Reason, format string, args ...any) *fault {
	return &fault{status: statusOf(r), reason: r.String(), counted: r, message: fmt.Sprintf(format, metric.TruncateArgs(args)...)}
}

// notYet is the fault of a request that may be granted once it is known who makes it.
func notYet(format string, args ...any) *fault {
	f := refused(metric.Identity, format, args...)
	f.status, f.reason, f.retryAfter = fasthttp.StatusServiceUnavailable, metric.Pending.String(), true
	return f
}

// waits reports whether the fault may be gone in a moment, once the cluster has told more.
func (f *fault) waits() bool { return f.reason == metric.Pending.String() }

func badRequest(format string, args ...any) *fault { return refused(metric.Malformed, format, args...) }

func badName(format string, args ...any) *fault { return refused(metric.BadName, format, args...) }

// wrongScope: the object cannot be where the sender says it is.
func wrongScope(format string, args ...any) *fault {
	f := refused(metric.Identity, format, args...)
	f.status = fasthttp.StatusBadRequest
	return f
}

// unknownResource words an error of Resources, which names the resource itself.
func unknownResource(err error) *fault {
	f := wrongScope("%v", err)
	if errors.Is(err, metric.ErrNotReady) {
		f.status, f.reason, f.retryAfter = fasthttp.StatusServiceUnavailable, metric.Pending.String(), true
	}
	if errors.Is(err, metric.ErrNotFound) {
		f.status, f.reason = fasthttp.StatusNotFound, "not_found"
	}
	return f
}

func badEscape(where string, piece []byte, at int) *fault {
	f := badRequest(`the %s has a "%%" that is not followed by two hexadecimal digits, in %q`, where, clip(piece))
	return f.at(at)
}

// at says where in its line, or in a body of one value, the fault is.
func (f *fault) at(offset int) *fault {
	f.offset, f.located = offset, true
	return f
}

// statusOf is the status of a request whose one sample was refused.
func statusOf(r metric.Reason) int {
	switch r {
	case metric.Applied:
		return fasthttp.StatusOK
	case metric.KindConflict:
		return fasthttp.StatusConflict
	case metric.Identity:
		return fasthttp.StatusForbidden
	case metric.OverLimit:
		return fasthttp.StatusTooManyRequests
	}
	return fasthttp.StatusBadRequest
}

// refusal words what the table said about a sample that was well formed.
func refusal(r metric.Reason, s *metric.Sample) *fault {
	subject := fmt.Sprintf("%q", clip(s.Name))
	if s.Object != nil {
		subject += " of " + fmt.Sprintf("%q", s.Object.String())
	}
	switch r {
	case metric.KindConflict:
		return refused(r, "%s has another kind already and cannot take a %s: delete it first, or push under another name", subject, s.Kind)
	case metric.OverLimit:
		return refused(r, "%s would be a new series, and no more may be", subject)
	case metric.Pending:
		return notYet("it cannot be decided yet whether this sender may speak of %s", subject)
	case metric.Identity:
		return refused(r, "this sender may not speak of %s, or the object is ambiguous", subject)
	case metric.Ignored:
		return refused(r, "%s matches a pattern of names that are ignored here", subject)
	case metric.BadName:
		if metric.CheckName(metric.Borrow(s.Name)) == metric.Applied {
			return refused(r, "a label of %s holds a control character: no name, label key or label value may", subject)
		}
		return nameFault(metric.Borrow(s.Name), r)
	case metric.BadValue:
		return refused(r, "%s was refused for its value: %s", subject, bounds(s))
	}
	return refused(r, "%s was refused: %s", subject, r)
}

// outdated words the refusal of a gauge that its client dates into the past.
func outdated(s *metric.Sample) *fault {
	return refused(metric.Outdated, "%q is a gauge of %s; must not be older than 5m: it says nothing of what is now", clip(s.Name), time.Unix(s.Timestamp, 0).UTC().Format(time.RFC3339))
}

// bounds says what the table holds of a sample's kind.
func bounds(s *metric.Sample) string {
	switch {
	case s.Kind == metric.Counter && s.Op == metric.Accumulate:
		return "a counter's total is at most 4.6e18"
	case s.Kind == metric.Counter:
		return "one increment of a counter, divided by its rate, is at most 9.2e15, and all of them together are at most 4.6e18"
	}
	return "want a finite number"
}

// checkName is metric.CheckName, worded.
func checkName(name string) *fault {
	if r := metric.CheckName(name); r != metric.Applied {
		return nameFault(name, r)
	}
	return nil
}

func nameFault(name string, r metric.Reason) *fault {
	if f := checkText("the metric's name", name, r); f != nil {
		return f
	}
	switch {
	case r == metric.Malformed:
		return refused(r, "the metric's name is empty")
	case r == metric.TooLong:
		return refused(r, "the metric's name has %d bytes, but may have %d", len(name), metric.MaxNameLength)
	case metric.HasReservedSuffix(name):
		a := metric.ParseExpression(name)
		return refused(r, "%q ends in a stat or a window, so readers would take it for %q asked with those: name it otherwise", name, a.Name)
	}
	return refused(r, `%q cannot be asked for in the Kubernetes metrics APIs: a name holds no "%%", "?" or control character, and is not ".", "..", "status" or "finalize"`, name)
}

// clip keeps what a client sent from filling an answer.
func clip(b []byte) []byte {
	if len(b) > 256 {
		return []byte(metric.Truncate(string(b), 256))
	}
	return b
}
