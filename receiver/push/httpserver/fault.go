package httpserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// Fault is why a request, or one line of a body, was rejected.
type Fault struct {
	Status  int
	Reason  string        // in the answer
	Counted metric.Reason // in the accounts
	// Uncounted: the request has no sample, or was rejected before it was known to have one.
	Uncounted bool
	Message   string
	Line      int // 1 is the first; 0: the fault is not in a line
	Offset    int
	located   bool // Offset is set
	about     []byte
	unworded  bool // see Unworded

	allow      string   // the Allow header of a 405
	paths      []string // the paths of a 404
	Close      bool     // part of the body is still on the wire
	retryAfter bool
	challenges []string // the WWW-Authenticate headers of a 401
}

// Error implements error.
func (f *Fault) Error() string { return f.Reason + ": " + f.Message }

// Rejected makes the fault of a sample.
func Rejected(r metric.Reason, format string, args ...any) *Fault {
	return &Fault{Status: StatusOf(r), Reason: r.String(), Counted: r,
		Message: fmt.Sprintf(format, metric.TruncateArgs(args)...)}
}

// Unworded is the fault of a rejected sample without its words, which are made where somebody sees it: a body can have
// millions. All share it, so nobody may change it.
func Unworded(r metric.Reason) *Fault {
	if r == metric.Pending {
		return unwordedEarly
	}
	return unworded[r]
}

var unworded, unwordedEarly = unwordedFaults()

// unwordedFaults makes one for each reason, and one for a sample that could not be held.
func unwordedFaults() (all [metric.NumReasons]*Fault, early *Fault) {
	for i := range all {
		all[i] = Rejected(metric.Reason(i), "")
		all[i].unworded = true
	}
	early = NotYet("")
	early.unworded = true
	return all, early
}

// worded is a fault with its words, which words makes if it has none.
func worded(f *Fault, words func() *Fault) *Fault {
	if f.unworded {
		return words()
	}
	return f
}

// inLine sets the line of a fault to that which was read last.
func inLine(f *Fault, body Lines) *Fault {
	f.Line = body.LineNumber()
	return f
}

const busyReason = "busy"

// NotYet makes the fault of a request that waits for the cluster view: for its sender, or for what
// it reads.
func NotYet(format string, args ...any) *Fault {
	f := Rejected(metric.Identity, format, args...)
	f.Status, f.Reason, f.retryAfter = fasthttp.StatusServiceUnavailable, metric.Pending.String(), true
	return f
}

// TooBusy makes the fault of a request that can be repeated in a moment.
func TooBusy(format string, args ...any) *Fault {
	return &Fault{
		Status: fasthttp.StatusTooManyRequests, Reason: busyReason, Uncounted: true, retryAfter: true,
		Message: fmt.Sprintf(format, args...),
	}
}

// Busy reports whether the server has too much to do. The request may be sent again in a moment.
func (f *Fault) Busy() bool { return f.Reason == busyReason }

// Ends reports whether no later request of the connection can succeed: its sender has ended.
func (f *Fault) Ends() bool { return f.Close && f.Counted == metric.Identity }

// Retry reports whether the request may be sent again in a moment.
func (f *Fault) Retry() bool { return f.retryAfter }

// Waits reports whether the fault may be gone soon, once more of the cluster is known.
func (f *Fault) Waits() bool { return f.Reason == metric.Pending.String() }

// BadRequest makes the fault of malformed input.
func BadRequest(format string, args ...any) *Fault {
	return Rejected(metric.Malformed, format, args...)
}

// BadName makes the fault of an invalid name.
func BadName(format string, args ...any) *Fault { return Rejected(metric.BadName, format, args...) }

// wrongScope makes the fault of an object that cannot be in, or outside, the namespace given, or has ended.
func wrongScope(format string, args ...any) *Fault {
	f := Rejected(metric.Identity, format, args...)
	f.Status = fasthttp.StatusBadRequest
	return f
}

// unknownResource words an error of Resources, which names the resource itself.
func unknownResource(err error) *Fault {
	f := wrongScope("%v", err)
	if errors.Is(err, metric.ErrNotReady) {
		f.Status, f.Reason, f.retryAfter = fasthttp.StatusServiceUnavailable, metric.Pending.String(), true
	}
	if errors.Is(err, metric.ErrNotFound) {
		f.Status, f.Reason = fasthttp.StatusNotFound, "not_found"
	}
	return f
}

// BadEscape makes the fault of an invalid percent escape at an offset of a piece of a path or a
// query.
func BadEscape(where string, piece []byte, at int) *Fault {
	f := BadRequest(`the %s has a "%%" that is not followed by two hexadecimal digits, in %q`, where, Clip(piece))
	return f.At(at)
}

// At sets the offset of the fault in its line, or in a body of one value.
func (f *Fault) At(offset int) *Fault {
	f.Offset, f.located = offset, true
	return f
}

// mostAbout bounds the text about a fault on either side of its offset: with the longest name of a metric, it is as much as
// is looked at for secrets.
const mostAbout = 1790

// About sets the text that the message is about, which the fault borrows until it is recorded. A record masks secrets in
// the message by it, as the message may quote a value without the word before it. A name and its value are joined by "=":
// longer names, as db_password_prod, need a sign. The offset is set before.
func (f *Fault) About(text []byte) *Fault {
	if f != nil {
		at := min(f.Offset, len(text))
		f.about = text[max(at-mostAbout, 0):min(at+mostAbout, len(text))]
	}
	return f
}

// masked is the message for a record, without secrets.
func (f *Fault) masked(metricName string) string {
	return metric.MaskAbout(f.Message, append([]byte(metricName+"="), f.about...), 0)
}

// StatusOf returns the status of a request whose one sample was rejected.
func StatusOf(r metric.Reason) int {
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

// rejection words why the table rejected a well-formed sample.
func rejection(r metric.Reason, s *metric.Sample) *Fault {
	subject := subjectOf(s)
	switch r {
	case metric.KindConflict:
		return Rejected(r, "%s %s", subject, metric.NoKind.Conflict(s.Kind))
	case metric.OverLimit:
		return Rejected(r, "%s would be a new series, and the series limit is reached", subject)
	case metric.Pending:
		return NotYet("it is not known yet whether this sender may push to %s", subject)
	case metric.Identity:
		return Rejected(r, "this sender must not push to %s, or the object is ambiguous", subject)
	case metric.Ignored:
		return Rejected(r, "%s matches a pattern of ignored names", subject)
	case metric.BadName:
		if metric.CheckName(metric.Borrow(s.Name)) == metric.Applied {
			return Rejected(r, "a label of %s has a control character; names and labels must have none", subject)
		}
		return nameFault(metric.Borrow(s.Name), r)
	case metric.BadValue:
		return Rejected(r, "%s was refused for its value: %s", subject, bounds(s))
	}
	return Rejected(r, "%s was refused: %s", subject, r)
}

// subjectOf names the metric of a sample, and its object.
func subjectOf(s *metric.Sample) string {
	subject := fmt.Sprintf("%q", Clip(s.Name))
	if s.Object != nil {
		subject += " of " + fmt.Sprintf("%q", s.Object.String())
	}
	return subject
}

// outdated words the rejection of a gauge with an old timestamp.
func outdated(s *metric.Sample) *Fault {
	return Rejected(metric.Outdated, "%q is a gauge of %s; must not be older than 5m", Clip(s.Name),
		s.Date().UTC().Format(time.RFC3339))
}

// bounds words the range of values that the table holds for a kind.
func bounds(s *metric.Sample) string {
	switch {
	case s.Kind == metric.Counter && s.Op == metric.Accumulate:
		return "a counter's total is at most 4.6e18"
	case s.Kind == metric.Counter:
		return "one increment of a counter, divided by its rate, is at most 9.2e15, and all of them together are at most 4.6e18"
	}
	return "want a finite number"
}

// CheckName is metric.CheckName, with a fault in words.
func CheckName(name string) *Fault {
	if r := metric.CheckName(name); r != metric.Applied {
		return nameFault(name, r)
	}
	return nil
}

func nameFault(name string, r metric.Reason) *Fault {
	if f := checkText("the metric's name", name, r); f != nil {
		return f
	}
	switch {
	case r == metric.Malformed:
		return Rejected(r, "the metric's name is empty")
	case r == metric.TooLong:
		return Rejected(r, "the metric's name has %d bytes; must have at most %d", len(name), metric.MaxNameLength)
	case metric.HasReservedSuffix(name):
		a := metric.ParseExpression(name)
		return Rejected(r, "%q ends in a stat or a window, so readers would take it for a query of %q: use another name",
			name, a.Name)
	}
	return Rejected(r, `%q cannot be queried in the Kubernetes metrics APIs: a name must not have "%%", "?" or control character, and is not ".", "..", "status" or "finalize"`, name)
}

// Clip shortens a client's text for an answer.
func Clip(b []byte) []byte {
	if len(b) > 256 {
		return []byte(metric.Truncate(string(b), 256))
	}
	return b
}
