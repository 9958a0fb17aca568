package push

import (
	"bytes"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// A statsdHandler serves /v1/statsd.
type statsdHandler struct {
	// dialect is how lines are read if a request names no dialect.
	dialect statsd.Dialect
}

// newStatsd makes the handler. dialect is how lines are read if a request names no dialect.
func newStatsd(dialect statsd.Dialect) *statsdHandler { return &statsdHandler{dialect} }

// routes returns the handler's routes. The statsd-client of npm sends PUT.
func (h *statsdHandler) Routes() []*Route {
	return []*Route{{
		Paths: []string{"/v1/statsd"}, Index: []string{"/v1/statsd"},
		Put: h.push, Post: h.push, Fail: (*exchange).failPush,
	}}
}

// push answers PUT and POST /v1/statsd. A series lives as long here as when it comes by UDP.
func (h *statsdHandler) push(x *exchange) {
	p, body, f := x.readLines(allowSync | allowDialect)
	if f != nil {
		x.failPush(f)
		return
	}
	dialect := h.dialect
	if p.dialect != "" {
		var err error
		if dialect, err = statsd.ParseDialect(p.dialect); err != nil {
			x.failPush(badRequest("%v", err))
			return
		}
	}
	scanner := statsd.NewScanner(statsd.Options{Dialect: dialect, MaxLine: x.config().MaxLineBytes, MaxTags: x.config().MaxLabels})
	scanner.Reset(body)
	x.apply(&statsdSource{scanner: scanner, body: body}, p.sync)
}

// statsdSource walks through the body of /v1/statsd.
type statsdSource struct {
	scanner *statsd.Scanner
	body    []byte
	n       int
	counted int // how much of body its lines were counted of
}

func (l *statsdSource) nextSample() (*metric.Sample, *fault, bool) {
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
