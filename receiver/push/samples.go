package push

import (
	"bytes"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

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

// next reads the next line that is not blank.
func (ls *jsonLines) next() (*metric.Sample, *fault, bool) {
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
	if max := ls.x.server.cfg.MaxLineBytes; len(b) > max {
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
	s.Object = about
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
	r, f := l.route()
	if f != nil {
		return nil, f
	}
	o, f := ls.x.server.target(r.namespace, r.resource, r.name)
	if f != nil {
		return nil, f
	}
	ls.lastNamespace, ls.lastObject, ls.about = string(l.namespace), string(l.object), &o
	return ls.about, nil
}

// route is the line's object, said as a path says it.
func (l *jsonLine) route() (route, *fault) {
	r := route{namespace: string(l.namespace)}
	if l.seen&fieldNamespace != 0 && r.namespace == "" {
		return r, badName("the namespace is empty: leave the field out for what is in none")
	}
	if object := string(l.object); l.seen&fieldObject != 0 && object != "external" {
		var ok bool
		if r.resource, r.name, ok = strings.Cut(object, "/"); !ok || r.resource == "" {
			return r, badRequest(`object %q is neither resource/name, like "pods/web-1", nor "external"`, object)
		}
		if r.resource == "external" {
			return r, badRequest(`object %q: an external's namespace is said with "namespace":%q, beside "object":"external"`, object, r.name)
		}
	}
	return r, r.check(false)
}
