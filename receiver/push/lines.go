package push

import (
	"bytes"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
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
	p, body, f := x.readLines(allowSync)
	if f != nil {
		x.failPush(f)
		return
	}
	lines := &jsonLines{x: x, rest: body, ttl: metric.Forever}
	lines.line = jsonLine{server: x.server, labels: x.labels[:0], jsonText: jsonText{text: x.text[:0]}}
	x.apply(lines, p.sync)
	x.labels, x.text = lines.line.labels[:0], lines.line.text
}

// pushStatsd answers PUT and POST /v1/statsd. A series lives as long here as when it comes by UDP.
func (x *exchange) pushStatsd() {
	p, body, f := x.readLines(allowSync | allowDialect)
	if f != nil {
		x.failPush(f)
		return
	}
	dialect := x.server.cfg.Dialect
	if p.dialect != "" {
		var err error
		if dialect, err = statsd.ParseDialect(p.dialect); err != nil {
			x.failPush(badRequest("%v", err))
			return
		}
	}
	scanner := statsd.NewScanner(statsd.Options{Dialect: dialect, MaxLine: x.server.cfg.MaxLineBytes, MaxTags: x.server.cfg.MaxLabels})
	scanner.Reset(body)
	x.apply(&statsdSource{scanner: scanner, body: body}, p.sync)
}

// readLines reads what a request of many samples says in its query, and its body.
func (x *exchange) readLines(may allowed) (p params, body []byte, f *fault) {
	p, f = x.parseParams(x.http.URI().QueryString(), may)
	if f == nil && p.sync && x.server.syncer == nil {
		f = noStore()
	}
	if f == nil {
		body, f = x.readBody()
	}
	return p, body, f
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

// apply applies what the source yields and answers.
func (x *exchange) apply(from source, sync bool) {
	t := x.applyAll(from)
	x.conclude(&t, sync)
}

// applyAll applies what the source yields: each sample enters the ledger once, whatever becomes of it.
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
			a.Quiesce()
		}
	}
	x.server.appliers.give(near, a)
	x.server.account.CountApplied(uint64(t.Applied))
	return t
}

// applyLine applies one sample, or has it held, and counts it. Where that depends on a right that nobody asked about lately,
// the Applier is given back while the API server is asked, and the sample applied again with the one that is returned.
func (x *exchange) applyLine(t *tally, a *parked, s *metric.Sample, from source) *parked {
	if s.Timestamp != 0 && s.Outdated(time.Now()) {
		x.enter(t, outdated(s), from)
		return a
	}
	s.Sender = t.sender
	reason := a.Apply(s)
	if reason == metric.KindConflict {
		if o, ok := from.(otherKind); ok && o.OtherKind() {
			reason = a.Apply(s)
		}
	}
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
