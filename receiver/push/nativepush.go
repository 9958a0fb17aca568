package push

import (
	"bytes"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// pushValue answers a PUT or a POST of one metric.
func pushValue(x *exchange) {
	method := x.method()
	p, f := pushTarget(x, method)
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
	x.name = append(x.name[:0], x.path.Metric...)
	x.sample = metric.Sample{
		Name: x.name, Kind: p.kind, Op: opOf(p.kind, method == fasthttp.MethodPost),
		Rate: p.rate, Fields: p.labels, About: &x.object, TTL: p.ttl,
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
func pushTarget(x *exchange, method string) (params, *fault) {
	p, f := x.parseParams(x.http.URI().QueryString(), allowType|allowLabel|allowTTL|allowRate|allowSync)
	if f != nil {
		return p, f
	}
	if f := checkName(x.path.Metric); f != nil {
		return p, f
	}
	if f := x.path.check(false); f != nil {
		return p, f
	}
	if f := settleKind(&p, method); f != nil {
		return p, f
	}
	if f := x.checkSync(p.sync); f != nil {
		return p, f
	}
	if p.ttl == 0 {
		p.ttl = metric.Forever
	}
	x.object, f = x.target(x.path.Namespace, x.path.Resource, x.path.Name)
	return p, f
}

// settleKind holds type and method against each other. A PUT says what the value is now, which only a gauge
// has; a POST adds: to a counter, to a gauge, an observation to a timer, a member to a set.
func settleKind(p *params, method string) *fault {
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

func (v *bodyValues) nextSample() (*metric.Sample, *fault, bool) {
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
