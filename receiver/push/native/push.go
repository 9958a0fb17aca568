package native

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/number"
	"github.com/valyala/fasthttp"
)

// pushValue answers a PUT or a POST of one metric.
func pushValue(x *httpserver.Request) {
	method := x.Method()
	p, f := pushTarget(x, method)
	if f == nil {
		f = x.AskFirst(x.Object)
	}
	var body []byte
	if f == nil {
		body, f = x.ReadBody()
	}
	if f != nil {
		x.FailPush(f)
		return
	}
	x.Name = append(x.Name[:0], x.Path.Metric...)
	x.Sample = metric.Sample{
		Name: x.Name, Kind: p.Kind, Op: opOf(p.Kind, method == fasthttp.MethodPost),
		Rate: p.Rate, Fields: p.Labels, Object: &x.Object, TTL: p.TTL,
	}
	if p.Kind == metric.Timer {
		x.Apply(&bodyValues{sample: &x.Sample, rest: body}, p.Sync)
		return
	}
	if f := setBody(&x.Sample, body); f != nil {
		x.FailPush(f)
		return
	}
	x.ApplyOne(p.Sync)
}

// pushTarget reads everything of a push but its value.
func pushTarget(x *httpserver.Request, method string) (httpserver.Params, *httpserver.Fault) {
	p, f := x.ParseParams(x.HTTP.URI().QueryString(),
		httpserver.ParamType|httpserver.ParamLabel|httpserver.ParamTTL|httpserver.ParamRate|httpserver.ParamSync)
	if f != nil {
		return p, f
	}
	if f := httpserver.CheckName(x.Path.Metric); f != nil {
		return p, f
	}
	if f := x.Path.Check(false); f != nil {
		return p, f
	}
	if f := settleKind(&p, method); f != nil {
		return p, f
	}
	if f := x.CheckSync(p.Sync); f != nil {
		return p, f
	}
	if p.TTL == 0 {
		p.TTL = metric.Forever
	}
	x.Object, f = x.Target(x.Path.Namespace, x.Path.Resource, x.Path.Name)
	return p, f
}

// settleKind checks the type against the method. A PUT sets the current value, which only a gauge
// has; a POST adds to a counter or a gauge, observes a timer's value, or inserts a member of a set.
func settleKind(p *httpserver.Params, method string) *httpserver.Fault {
	if p.Kind == metric.NoKind {
		p.Kind = metric.Counter
		if method == fasthttp.MethodPut {
			p.Kind = metric.Gauge
		}
	}
	if method == fasthttp.MethodPut && p.Kind != metric.Gauge {
		return httpserver.BadRequest("a %s cannot be set, only added to: use POST, or PUT with type=gauge", p.Kind)
	}
	return checkRateFor(p.Kind, p.Rate)
}

// opOf returns the operation of a push to a series of the kind; adds matters for gauges only.
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

func checkRateFor(kind metric.Kind, rate float64) *httpserver.Fault {
	if rate != 0 && kind != metric.Counter && kind != metric.Timer {
		return httpserver.Rejected(metric.BadRate, "a rate says how many of a counter's or a timer's samples are sent; a %s has none", kind)
	}
	return nil
}

// setBody sets the value of a sample from a body of one value.
func setBody(s *metric.Sample, body []byte) *httpserver.Fault {
	if s.Kind == metric.Set {
		s.Member = bytes.TrimSuffix(bytes.TrimSuffix(body, []byte{'\n'}), []byte{'\r'})
		return checkMember(s.Member)
	}
	return setNumber(s, body)
}

// blanks may stand around a number.
const blanks = " \t\r\n"

func setNumber(s *metric.Sample, text []byte) *httpserver.Fault {
	trimmed := bytes.TrimLeft(text, blanks)
	before := len(text) - len(trimmed)
	trimmed = bytes.TrimRight(trimmed, blanks)
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return httpserver.BadRequest("the body is the number alone, like 12, -0.5 or 1e3: JSON goes to POST /v1/samples, one object a line").At(before)
	}
	n, nf := number.Parse(trimmed)
	if nf.Reason != metric.Applied {
		return httpserver.Rejected(nf.Reason, "%s", nf.Words(trimmed)).At(before + nf.Offset).About(text)
	}
	s.Whole, s.Fraction = n.Whole, n.Fraction
	return nil
}

// maxMemberBytes bounds the member of a set.
const maxMemberBytes = 1024

func checkMember(member []byte) *httpserver.Fault {
	switch {
	case len(member) == 0:
		return httpserver.BadRequest("the set's member is empty")
	case len(member) > maxMemberBytes:
		return httpserver.Rejected(metric.TooLong, "the set's member has %d bytes; must have at most %d",
			len(member), maxMemberBytes)
	}
	return nil
}

// bodyValues is a Source over the body of a timer: one number a line.
type bodyValues struct {
	sample     *metric.Sample
	line, rest []byte
	n          int
	any        bool
}

func (v *bodyValues) NextSample() (*metric.Sample, *httpserver.Fault, bool) {
	for len(v.rest) > 0 {
		v.line, v.rest, _ = bytes.Cut(v.rest, []byte{'\n'})
		v.n++
		if len(bytes.TrimSpace(v.line)) == 0 {
			continue
		}
		v.any = true
		return v.read()
	}
	if !v.any { // an empty body is a mistake for every kind
		v.any, v.line = true, nil
		return v.read()
	}
	return nil, nil, false
}

// read reads the number of the line.
func (v *bodyValues) read() (*metric.Sample, *httpserver.Fault, bool) {
	n, f := number.Parse(bytes.Trim(v.line, blanks))
	if f.Reason != metric.Applied {
		return nil, httpserver.Unworded(f.Reason), true
	}
	v.sample.Whole, v.sample.Fraction = n.Whole, n.Fraction
	return v.sample, nil, true
}

func (v *bodyValues) Words() *httpserver.Fault { return setNumber(v.sample, v.line) }

func (v *bodyValues) LineNumber() int { return max(v.n, 1) }

// matchSeries reads the path of one metric: of an object in a namespace, of the namespace itself,
// of an object of the cluster, or external.
func matchSeries(path []byte, p *httpserver.Path) (bool, *httpserver.Fault) {
	var segments httpserver.Segments
	n, f := segments.Cut(path)
	if f != nil || n < 2 || segments[0] != "v1" {
		return false, f
	}
	switch s := segments[1:n]; {
	case len(s) == 2 && s[0] == "external":
		*p = httpserver.Path{Metric: slashed(s[1])}
	case len(s) == 1 && s[0] == "external":
		return false, httpserver.BadRequest("the metric's name is missing: /v1/external/{metric}")
	case len(s) == 3 && s[0] == "namespaces" && (s[2] == "external" || s[2] == "metrics"):
		return false, httpserver.BadRequest("the metric's name is missing: /v1/namespaces/%s/%s/{metric}", s[1], s[2])
	case len(s) == 4 && s[0] == "namespaces" && s[2] != "external" && s[2] != "metrics":
		return false, httpserver.BadRequest("the metric's name is missing: /v1/namespaces/%s/%s/%s/{metric}%s",
			s[1], s[2], s[3],
			meant("/v1/namespaces/"+s[1]+"/", s[2], s[3], "external", "metrics"))
	case len(s) == 2 && suggest.Nearest(s[0], []string{"external"}) != "":
		return false, httpserver.BadRequest("there is no path /v1/%s/%s%s", s[0], s[1], meant("/v1/", s[0], s[1], "external"))
	case len(s) == 3 && s[0] == "namespaces":
		return false, httpserver.BadRequest("a namespace's own metric has the path /v1/namespaces/%s/metrics/%s", s[1], s[2])
	case len(s) == 3 && s[0] == "external":
		return false, httpserver.BadRequest(`a "/" in a metric's name is written "%%2F" or "\|": /v1/external/%s\|%s`,
			s[1], s[2])
	case len(s) == 3:
		*p = httpserver.Path{Resource: s[0], Name: s[1], Metric: slashed(s[2])}
	case len(s) == 4 && s[0] == "namespaces" && s[2] == "external":
		*p = httpserver.Path{Namespace: s[1], Metric: slashed(s[3])}
	case len(s) == 4 && s[0] == "namespaces" && s[2] == "metrics":
		*p = httpserver.Path{Resource: "namespaces", Name: s[1], Metric: slashed(s[3])}
	case len(s) == 5 && s[0] == "namespaces":
		*p = httpserver.Path{Namespace: s[1], Resource: s[2], Name: s[3], Metric: slashed(s[4])}
	default:
		return false, nil
	}
	return true, nil
}

// meant continues the fault of a path with the one that has the nearest of some words in the place of word.
func meant(before, word, metric string, words ...string) string {
	if best := suggest.Nearest(word, words); best != "" {
		return fmt.Sprintf("; did you mean %s%s/%s?", before, best, metric)
	}
	return ""
}

// slashed reads "\|" as "/": the Kubernetes metrics APIs spell it so, because a path segment cannot
// hold one.
func slashed(name string) string { return strings.ReplaceAll(name, `\|`, "/") }
