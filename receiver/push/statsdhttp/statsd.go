package statsdhttp

import (
	"bytes"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// A Handler serves /v1/statsd.
type Handler struct {
	// dialect is how lines are read if a request names no dialect.
	dialect statsd.Dialect
}

// New makes the handler. dialect is how lines are read if a request names no dialect.
func New(dialect statsd.Dialect) *Handler { return &Handler{dialect} }

// Routes returns the route of the protocol. The statsd-client of npm sends PUT.
func (h *Handler) Routes() []*httpserver.Route {
	return []*httpserver.Route{{
		Paths: []string{"/v1/statsd"}, Index: []string{"/v1/statsd"},
		Put: h.push, Post: h.push, Fail: (*httpserver.Request).FailPush,
		Tag: "metrics", Operations: []httpserver.Operation{
			{
				Method: "PUT", Path: "/v1/statsd", ID: "putStatsD",
				Summary: "Takes StatsD lines, as POST does", Description: httpserver.LinesDescription,
				Params: "dialect sync encoding", Body: "StatsD", Answers: "200:Pushed 202:Held",
			},
			{
				Method: "POST", Path: "/v1/statsd", ID: "pushStatsD",
				Summary: "Takes StatsD lines", Description: httpserver.LinesDescription,
				Params: "dialect sync encoding", Body: "StatsD", Answers: "200:Pushed 202:Held",
			},
		},
	}}
}

// push answers PUT and POST /v1/statsd. Series live as long as those pushed over UDP.
func (h *Handler) push(x *httpserver.Request) {
	p, body, f := x.ReadQueryAndBody(httpserver.ParamSync | httpserver.ParamDialect)
	if f != nil {
		x.FailPush(f)
		return
	}
	dialect := h.dialect
	if p.Dialect != "" {
		var err error
		if dialect, err = statsd.ParseDialect(p.Dialect); err != nil {
			x.FailPush(httpserver.BadRequest("%v", err))
			return
		}
	}
	scanner := statsd.NewScanner(statsd.Options{Dialect: dialect, MaxLine: x.Config().MaxLineBytes,
		MaxTags: x.Config().MaxLabels})
	scanner.Reset(body)
	x.Apply(&statsdSource{scanner: scanner, body: body}, p.Sync)
}

// statsdSource is a Source over the body of /v1/statsd.
type statsdSource struct {
	scanner *statsd.Scanner
	body    []byte
	n       int
	counted int // how much of body its lines were counted of
}

func (l *statsdSource) NextSample() (*metric.Sample, *httpserver.Fault, bool) {
	if !l.scanner.Next() {
		return nil, nil, false
	}
	if r := l.scanner.Fault.Reason; r != metric.Applied {
		return nil, httpserver.Unworded(r), true
	}
	return &l.scanner.Sample, nil, true
}

func (l *statsdSource) Words() *httpserver.Fault {
	f, line := l.scanner.Fault, l.scanner.Line()
	return httpserver.Rejected(f.Reason, "%q: %s", httpserver.Clip(line),
		f.Explain(line)).At(f.Offset - l.scanner.LineOffset()).About(line)
}

func (l *statsdSource) LineNumber() int {
	start := l.scanner.LineOffset()
	l.n += bytes.Count(l.body[l.counted:start], []byte{'\n'})
	l.counted = start
	return l.n + 1
}
