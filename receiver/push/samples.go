package push

import (
	"bytes"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// pushSamples answers POST /v1/samples.
func pushSamples(x *exchange) {
	p, body, f := x.readLines(allowSync)
	if f != nil {
		x.failPush(f)
		return
	}
	lines := &jsonLines{x: x, rest: body, ttl: metric.Forever}
	lines.line = jsonLine{x: x, labels: x.labels[:0], jsonText: jsonText{text: x.text[:0]}}
	x.apply(lines, p.sync)
	x.labels, x.text = lines.line.labels[:0], lines.line.text
}

// jsonLines walks through the body of /v1/samples.
type jsonLines struct {
	x    *exchange
	line jsonLine
	rest []byte
	n    int
	ttl  time.Duration // of lines that say none

	// What the last object was, as it stood there: most bodies speak of few objects.
	lastNamespace, lastObject string
	about                     *metric.Object
}

// nextSample reads the next line that is not blank.
func (ls *jsonLines) nextSample() (*metric.Sample, *fault, bool) {
	for len(ls.rest) > 0 {
		var b []byte
		b, ls.rest, _ = bytes.Cut(ls.rest, []byte{'\n'})
		ls.n++
		if len(bytes.TrimSpace(b)) == 0 {
			continue
		}
		s, f := ls.read(b)
		return s, f, true
	}
	return nil, nil, false
}

func (ls *jsonLines) lineNumber() int { return ls.n }

func (ls *jsonLines) read(b []byte) (*metric.Sample, *fault) {
	if max := ls.x.config().MaxLineBytes; len(b) > max {
		return nil, refused(metric.TooLong, "the line has %d bytes, but may have %d", len(b), max).at(max)
	}
	if !ls.line.read(b) {
		return nil, ls.line.fault.fault()
	}
	return ls.sample()
}

// sample makes a sample of the line.
func (ls *jsonLines) sample() (*metric.Sample, *fault) {
	l, s := &ls.line, &ls.x.sample
	*s = metric.Sample{Name: l.name, Rate: l.rate, Fields: l.labels, Timestamp: l.timestamp, TTL: ls.ttl}
	if f := checkName(metric.Borrow(l.name)); f != nil {
		return nil, f
	}
	if f := l.setValue(s); f != nil {
		return nil, f
	}
	if l.seen&fieldTTL != 0 {
		ttl, f := parseTTL(metric.Borrow(l.ttl))
		if f != nil {
			return nil, f
		}
		s.TTL = ttl
	}
	about, f := ls.object()
	if f != nil {
		return nil, f
	}
	s.About = about
	return s, nil
}

// setValue sets kind, op and value, where they go together.
func (l *jsonLine) setValue(s *metric.Sample) *fault {
	kind, ok := metric.ParseKind(metric.Borrow(l.kind))
	isText := l.seen&fieldMember != 0
	switch {
	case !ok:
		return badRequest("type %q is none of counter, gauge, timer (or histogram, distribution), set", clip(l.kind))
	case kind == metric.Set && !isText:
		return badRequest(`a set's value is a member, as a string: "value":"42"`).at(l.valueAt)
	case kind != metric.Set && isText:
		return badRequest("a %s's value is a number without quotes", kind).at(l.valueAt)
	case l.delta && kind != metric.Gauge:
		return badRequest("delta is for gauges: a %s has nothing to add to", kind)
	}
	if f := checkRateFor(kind, l.rate); f != nil {
		return f
	}
	s.Kind, s.Op = kind, opOf(kind, l.delta)
	if kind == metric.Set {
		s.Member = l.member
		return checkMember(l.member)
	}
	s.Whole, s.Fraction = l.value.whole, l.value.fraction
	return nil
}

// object is what the line speaks of; nil: its labels and its sender decide.
func (ls *jsonLines) object() (*metric.Object, *fault) {
	l := &ls.line
	if l.seen&(fieldNamespace|fieldObject) == 0 {
		return nil, nil
	}
	if ls.about != nil && ls.lastNamespace == string(l.namespace) && ls.lastObject == string(l.object) {
		return ls.about, nil
	}
	p, f := l.path()
	if f != nil {
		return nil, f
	}
	o, f := ls.x.target(p.Namespace, p.Resource, p.Name)
	if f != nil {
		return nil, f
	}
	ls.lastNamespace, ls.lastObject, ls.about = string(l.namespace), string(l.object), &o
	return ls.about, nil
}

// path returns the line's object as a path names it.
func (l *jsonLine) path() (Path, *fault) {
	p := Path{Namespace: string(l.namespace)}
	if l.seen&fieldNamespace != 0 && p.Namespace == "" {
		return p, badName("the namespace is empty: leave the field out for what is in none")
	}
	if object := string(l.object); l.seen&fieldObject != 0 && object != "external" {
		var ok bool
		if p.Resource, p.Name, ok = strings.Cut(object, "/"); !ok || p.Resource == "" {
			return p, badRequest(`object %q is neither resource/name, like "pods/web-1", nor "external"`, object)
		}
		if p.Resource == "external" {
			return p, badRequest(`object %q: an external's namespace is said with "namespace":%q, beside "object":"external"`, object, p.Name)
		}
	}
	return p, p.check(false)
}
