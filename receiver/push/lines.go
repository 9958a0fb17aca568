package push

import (
	"bytes"
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/valyala/fasthttp"
)

// source is a body of several samples.
type source interface {
	// next reads on: a sample, or the fault that is there instead; false at the end. The sample is valid
	// until the next call.
	next() (*metric.Sample, *fault, bool)
	// lineNumber is where next has read, counted from 1; 0: the body has no lines.
	lineNumber() int
}

// maxErrors is how many faults of a body are told; the others are counted.
const maxErrors = 20

// batchLines is how many samples are applied between two boundaries that the table can use.
const batchLines = 256

// pushSamples answers POST /v1/samples.
func (x *exchange) pushSamples() {
	p, body, ok := x.readLines(allowSync)
	if !ok {
		return
	}
	lines := &jsonLines{x: x, rest: body, ttl: metric.Forever}
	lines.line = jsonLine{server: x.server, labels: x.labels[:0], jsonText: jsonText{text: x.text[:0]}}
	x.apply(lines, p.sync)
	x.labels, x.text = lines.line.labels[:0], lines.line.text
}

// pushStatsd answers POST /v1/statsd. A series lives as long here as when it comes by UDP.
func (x *exchange) pushStatsd() {
	p, body, ok := x.readLines(allowSync | allowDialect)
	if !ok {
		return
	}
	dialect, err := statsd.ParseDialect(p.dialect)
	if err != nil {
		x.failPush(badRequest("%v", err))
		return
	}
	scanner := statsd.NewScanner(statsd.Options{Dialect: dialect, MaxLine: x.server.cfg.MaxLineBytes, MaxTags: x.server.cfg.MaxLabels})
	scanner.Reset(body)
	x.apply(&statsdSource{scanner: scanner, body: body}, p.sync)
}

func (x *exchange) readLines(may allowed) (p params, body []byte, ok bool) {
	p, f := x.parseParams(x.http.URI().QueryString(), may)
	if f == nil && p.sync && x.server.syncer == nil {
		f = noStore()
	}
	if f == nil {
		body, f = x.readBody()
	}
	if f != nil {
		x.failPush(f)
		return p, nil, false
	}
	return p, body, true
}

// statsdSource walks through the body of /v1/statsd.
type statsdSource struct {
	scanner *statsd.Scanner
	body    []byte
	n       int
	counted int // how much of body its lines were counted of
}

func (l *statsdSource) next() (*metric.Sample, *fault, bool) {
	if !l.scanner.Next() {
		return nil, nil, false
	}
	f := l.scanner.Fault
	if f.Reason == metric.Applied {
		return &l.scanner.Sample, nil, true
	}
	line := l.scanner.Line()
	return nil, refused(f.Reason, "%q: %s", clip(line), f.Explain(line)).at(f.Offset - l.scanner.LineOffset()), true
}

func (l *statsdSource) lineNumber() int {
	start := l.scanner.LineOffset()
	l.n += bytes.Count(l.body[l.counted:start], []byte{'\n'})
	l.counted = start
	return l.n + 1
}

// tally is what became of a body.
type tally struct {
	pushAnswer
	sender *metric.Sender
	// Of the refused:
	limited int // those over a limit
	foreign int // those that the sender may not speak of
	early   int // those of which that cannot be said yet, and that found no room to be held
}

// apply applies what the source yields and answers.
func (x *exchange) apply(from source, sync bool) {
	t := x.applyAll(from)
	x.conclude(&t, sync)
}

// applyAll applies what the source yields. It is the only place that reads a source, so a sample enters the ledger once,
// whatever becomes of it.
func (x *exchange) applyAll(from source) tally {
	x.renew()
	near := x.http.ConnID()
	a := x.server.appliers.take(near)
	t := tally{sender: x.sender()}
	for n := 1; ; n++ {
		s, f, more := from.next()
		if !more {
			break
		}
		if f != nil {
			x.enter(&t, f, from)
		} else {
			a = x.applyLine(&t, a, s, from)
		}
		if n%batchLines == 0 {
			a.Pass()
		}
	}
	x.server.appliers.give(near, a)
	x.server.account.CountBatch(uint64(t.Applied))
	return t
}

// applyLine applies one sample, or has it held, and counts it. Where that depends on a right that nobody asked about lately,
// the Applier is given back while the API server is asked, and the sample applied again with the one that is returned.
func (x *exchange) applyLine(t *tally, a *parked, s *metric.Sample, from source) *parked {
	s.Sender = t.sender
	reason := a.Apply(s)
	needs := x.lacks(reason, s)
	if !needs.IsZero() {
		near := x.http.ConnID()
		x.server.appliers.give(near, a)
		f := x.ask(needs)
		a = x.server.appliers.take(near)
		if f == nil {
			reason, needs = a.Apply(s), metric.Right{}
		}
	}
	switch {
	case reason == metric.Applied:
		t.Applied++
	case !needs.IsZero():
		x.enter(t, x.unasked(s), from)
	case reason == metric.Pending && x.server.pending.Hold(s, x.server.account):
		t.Pending++
	case reason == metric.Pending || len(t.Errors) < maxErrors: // of what is early it matters that it is
		x.enter(t, x.refusal(reason, s), from)
	default: // nobody will read why
		x.enter(t, refusal(reason, s), from)
	}
	return a
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
		case f.status != fasthttp.StatusBadRequest: // and not of an object that cannot be
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

// conclude answers. What is ignored is so by the server's own configuration, and no error.
func (x *exchange) conclude(t *tally, sync bool) {
	status := fasthttp.StatusOK
	if t.Pending > 0 {
		status = fasthttp.StatusAccepted
		t.Message = "what is pending is held, and applied or refused as soon as that can be decided"
	}
	if t.Refused > 0 {
		status = fasthttp.StatusBadRequest
		first := t.Errors[0]
		if t.limited == t.Refused {
			status = fasthttp.StatusTooManyRequests
		}
		if t.foreign+t.early == t.Refused && x.server.desk != nil {
			f := x.denial(t)
			x.failHeaders(f)
			status = f.status
		}
		first.Message = fmt.Sprintf("%d of %d samples were refused, %d stay applied; the first: %s",
			t.Refused, t.Refused+t.Applied+t.Ignored+t.Pending, t.Applied, first.Message)
		t.Error = &first
	}
	if sync && t.Applied > 0 {
		if f := x.server.sync(); f != nil {
			status, t.Error = f.status, f.answer()
		}
	}
	x.reply(status, t.pushAnswer)
}

// denial is why a body was refused of which what was refused was so for its sender alone.
func (x *exchange) denial(t *tally) *fault {
	f := refused(metric.Identity, "")
	switch {
	case t.early == t.Refused:
		f = notYet("")
		f.status = fasthttp.StatusServiceUnavailable
	case x.server.desk != nil && x.caller.account == nil && len(x.server.challenges) > 0:
		f.status, f.challenges = fasthttp.StatusUnauthorized, x.server.challenges
	}
	return f
}
