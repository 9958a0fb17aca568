package push

import (
	"bytes"
	"context"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// push answers a PUT or a POST of one metric.
func (x *exchange) push(r *route, method string) {
	p, f := x.pushTarget(r, method)
	if f == nil {
		f = x.askFirst(x.object)
	}
	var body []byte
	if f == nil {
		body, f = x.readBody()
	}
	if f != nil {
		x.failPush(f)
		return
	}
	x.name = append(x.name[:0], r.metric...)
	x.sample = metric.Sample{
		Name: x.name, Kind: p.kind, Op: opOf(p.kind, method == fasthttp.MethodPost),
		Rate: p.rate, Fields: p.labels, Object: &x.object, TTL: p.ttl,
	}
	if p.kind == metric.Timer {
		x.apply(&bodyValues{sample: &x.sample, rest: body}, p.sync)
		return
	}
	if f := setBody(&x.sample, body); f != nil {
		x.failPush(f)
		return
	}
	x.applyOne(p.sync)
}

// pushTarget reads all that a push says besides its value.
func (x *exchange) pushTarget(r *route, method string) (params, *fault) {
	p, f := x.parseParams(x.http.URI().QueryString(), allowType|allowLabel|allowTTL|allowRate|allowSync)
	if f != nil {
		return p, f
	}
	if f := checkName(r.metric); f != nil {
		return p, f
	}
	if f := r.check(false); f != nil {
		return p, f
	}
	if f := p.settleKind(method); f != nil {
		return p, f
	}
	if p.sync && x.server.syncer == nil {
		return p, noStore()
	}
	if p.ttl == 0 {
		p.ttl = metric.Forever
	}
	x.object, f = x.server.target(r.namespace, r.resource, r.name)
	return p, f
}

// settleKind holds type and method against each other. A PUT says what the value is now, which only a gauge
// has; a POST adds: to a counter, to a gauge, an observation to a timer, a member to a set.
func (p *params) settleKind(method string) *fault {
	if p.kind == metric.NoKind {
		p.kind = metric.Counter
		if method == fasthttp.MethodPut {
			p.kind = metric.Gauge
		}
	}
	if method == fasthttp.MethodPut && p.kind != metric.Gauge {
		return badRequest("a %s cannot be set, only added to: use POST, or PUT with type=gauge", p.kind)
	}
	return checkRateFor(p.kind, p.rate)
}

// opOf is what a push does to a series of the kind; adds matters for gauges.
func opOf(kind metric.Kind, adds bool) metric.Op {
	switch kind {
	case metric.Counter:
		return metric.Add
	case metric.Gauge:
		if adds {
			return metric.Shift
		}
		return metric.Assign
	case metric.Timer:
		return metric.Observe
	case metric.Set:
		return metric.Insert
	}
	return metric.NoOp
}

func checkRateFor(kind metric.Kind, rate float64) *fault {
	if rate != 0 && kind != metric.Counter && kind != metric.Timer {
		return refused(metric.BadRate, "a rate says how many of a counter's or a timer's samples are sent; a %s has none", kind)
	}
	return nil
}

// setBody sets the value of a sample whose body is one value.
func setBody(s *metric.Sample, body []byte) *fault {
	if s.Kind == metric.Set {
		s.Member = bytes.TrimSuffix(bytes.TrimSuffix(body, []byte{'\n'}), []byte{'\r'})
		return checkMember(s.Member)
	}
	return setNumber(s, body)
}

func setNumber(s *metric.Sample, text []byte) *fault {
	trimmed := bytes.TrimLeft(text, " \t\r\n")
	before := len(text) - len(trimmed)
	trimmed = bytes.TrimRight(trimmed, " \t\r\n")
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return badRequest("the body is the number alone, like 12, -0.5 or 1e3: JSON goes to POST /v1/samples, one object a line").at(before)
	}
	n, nf := parseNumber(trimmed)
	if nf.reason != metric.Applied {
		return refused(nf.reason, "%s", nf.words(trimmed)).at(before + nf.offset)
	}
	s.Whole, s.Fraction = n.whole, n.fraction
	return nil
}

// maxMemberBytes bounds a set's member.
const maxMemberBytes = 1024

func checkMember(member []byte) *fault {
	switch {
	case len(member) == 0:
		return badRequest("the set's member is empty")
	case len(member) > maxMemberBytes:
		return refused(metric.TooLong, "the set's member has %d bytes, but may have %d", len(member), maxMemberBytes)
	}
	return nil
}

// bodyValues walks through the body of a timer: one number a line.
type bodyValues struct {
	sample *metric.Sample
	rest   []byte
	n      int
	any    bool
}

func (v *bodyValues) next() (*metric.Sample, *fault, bool) {
	for len(v.rest) > 0 {
		var line []byte
		line, v.rest, _ = bytes.Cut(v.rest, []byte{'\n'})
		v.n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		v.any = true
		return v.sample, setNumber(v.sample, line), true
	}
	if !v.any { // a push of nothing is a mistake, as it is for the other kinds
		v.any = true
		return v.sample, setNumber(v.sample, nil), true
	}
	return nil, nil, false
}

func (v *bodyValues) lineNumber() int { return max(v.n, 1) }

// applyOne applies the exchange's sample and answers.
func (x *exchange) applyOne(sync bool) {
	near := x.http.ConnID()
	x.sample.Sender = x.sender()
	a := x.server.appliers.take(near)
	reason := a.Apply(&x.sample)
	x.server.appliers.give(near, a)
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
		if f := x.server.sync(); f != nil {
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

func (s *Server) explain(sample *metric.Sample) string {
	if s.trust == nil {
		return "it is not known yet whose it is"
	}
	return s.trust.Explain(sample)
}

// sync waits for the disk. Requests in flight at shutdown still get their time.
func (s *Server) sync() *fault {
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

func noStore() *fault {
	return &fault{
		status: fasthttp.StatusBadRequest, reason: "sync", uncounted: true,
		message: "sync=true cannot be kept: this server stores nothing on disk; nothing was done",
	}
}
