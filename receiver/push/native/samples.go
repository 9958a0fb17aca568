package native

import (
	"bytes"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// pushSamples answers POST /v1/samples.
func pushSamples(x *httpserver.Request) {
	p, body, f := x.ReadQueryAndBody(httpserver.ParamSync)
	if f != nil {
		x.FailPush(f)
		return
	}
	lines := &jsonLines{x: x, rest: body, ttl: metric.Forever}
	lines.line = jsonLine{x: x, labels: x.Labels[:0], jsonText: jsonText{text: x.Text[:0]}}
	x.Apply(lines, p.Sync)
	x.Labels, x.Text = lines.line.labels[:0], lines.line.text
}

// jsonLines is a Source over the body of /v1/samples.
type jsonLines struct {
	x    *httpserver.Request
	line jsonLine
	rest []byte
	n    int
	ttl  time.Duration // of lines without a ttl

	// The last object as the line named it: most bodies name few objects.
	lastNamespace, lastObject string
	about                     *metric.Object
}

// NextSample reads the next line that is not blank.
func (ls *jsonLines) NextSample() (*metric.Sample, *httpserver.Fault, bool) {
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

func (ls *jsonLines) Words() *httpserver.Fault { return ls.line.fault.fault().About(ls.line.b) }

func (ls *jsonLines) LineNumber() int { return ls.n }

func (ls *jsonLines) read(b []byte) (*metric.Sample, *httpserver.Fault) {
	if max := ls.x.Config().MaxLineBytes; len(b) > max {
		return nil, httpserver.Rejected(metric.TooLong, "the line has %d bytes; must have at most %d", len(b), max).At(max).About(b)
	}
	if !ls.line.read(b) {
		return nil, httpserver.Unworded(ls.line.fault.reason)
	}
	s, f := ls.sample()
	return s, f.About(b)
}

// sample makes a sample of the line.
func (ls *jsonLines) sample() (*metric.Sample, *httpserver.Fault) {
	l, s := &ls.line, &ls.x.Sample
	*s = metric.Sample{Name: l.name, Rate: l.rate, Fields: l.labels, Dated: l.timestamp, TTL: ls.ttl}
	if f := httpserver.CheckName(metric.Borrow(l.name)); f != nil {
		return nil, f
	}
	if f := l.setValue(s); f != nil {
		return nil, f
	}
	if l.seen&fieldTTL != 0 {
		ttl, f := httpserver.ParseTTL(metric.Borrow(l.ttl))
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

// setValue sets kind, op and value, if they are valid together.
func (l *jsonLine) setValue(s *metric.Sample) *httpserver.Fault {
	kind, ok := metric.ParseKind(metric.Borrow(l.kind))
	isText := l.seen&fieldMember != 0
	switch {
	case !ok:
		return httpserver.BadRequest("type %q is unknown; must be one of counter, gauge, timer (or histogram, distribution), set", httpserver.Clip(l.kind))
	case kind == metric.Set && !isText:
		return httpserver.BadRequest(`a set's value is a member, as a string: "value":"42"`).At(l.valueAt)
	case kind != metric.Set && isText:
		return httpserver.BadRequest("a %s's value is a number without quotes", kind).At(l.valueAt)
	case l.delta && kind != metric.Gauge:
		return httpserver.BadRequest("delta is for gauges: a %s has nothing to add to", kind)
	}
	if f := checkRateFor(kind, l.rate); f != nil {
		return f
	}
	s.Kind, s.Op = kind, opOf(kind, l.delta)
	if kind == metric.Set {
		s.Member = l.member
		return checkMember(l.member)
	}
	s.Whole, s.Fraction = l.value.Whole, l.value.Fraction
	return nil
}

// object returns the object that the line names; nil: the labels and the sender decide.
func (ls *jsonLines) object() (*metric.Object, *httpserver.Fault) {
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
	o, f := ls.x.Target(p.Namespace, p.Resource, p.Name)
	if f != nil {
		return nil, f
	}
	ls.lastNamespace, ls.lastObject, ls.about = string(l.namespace), string(l.object), &o
	return ls.about, nil
}

// path returns the line's object as a path names it.
func (l *jsonLine) path() (httpserver.Path, *httpserver.Fault) {
	p := httpserver.Path{Namespace: string(l.namespace)}
	if l.seen&fieldNamespace != 0 && p.Namespace == "" {
		return p, httpserver.BadName("the namespace is empty: leave the field out for what is in none")
	}
	if object := string(l.object); l.seen&fieldObject != 0 && object != "external" {
		var ok bool
		if p.Resource, p.Name, ok = strings.Cut(object, "/"); !ok || p.Resource == "" {
			return p, httpserver.BadRequest(`object %q is neither resource/name, like "pods/web-1", nor "external"`, object)
		}
		if p.Resource == "external" {
			return p, httpserver.BadRequest(`object %q: an external's namespace is said with "namespace":%q, beside "object":"external"`, object, p.Name)
		}
	}
	return p, p.Check(false)
}
