package push

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/remotewrite"
	"github.com/valyala/fasthttp"
)

// exchange is one request on its way to its answer, with the memory that it needs for that. Exchanges are
// pooled: nothing of one outlives the request, and what the table is given is borrowed from it.
type exchange struct {
	server *Server
	http   *fasthttp.RequestCtx

	wire, plain buffer // the body as it came, and decompressed
	bodyRead    bool   // to its very end
	text        []byte // decoded pieces of the query, of JSON strings
	name        []byte // the metric of a path
	labels      []metric.Label
	sample      metric.Sample
	object      metric.Object
	origin      receiver.SenderResolver
	caller      caller

	exposition *exposition.TextReader // nil until there is something to read
	protobuf   *exposition.ProtobufReader
	otlp       *otlp.Reader
	remote     *remotewrite.Converter
}

// serve implements fasthttp.RequestHandler.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	s.metrics.inFlight.Add(1)
	x := s.exchanges.Get().(*exchange)
	x.http = ctx
	x.answer()
	if n := ctx.Request.Header.ContentLength(); !x.bodyRead && n != 0 && n != noBody {
		x.hangUp()
	}
	s.metrics.count(ctx.Method(), ctx.Response.StatusCode())
	s.metrics.duration.Observe(time.Since(ctx.Time()).Seconds())
	x.reset()
	s.exchanges.Put(x)
	s.metrics.inFlight.Add(-1)
}

// noBody is what fasthttp says of the length of a body that no header announces.
const noBody = -2

// hangUp ends the connection after the answer: fasthttp would take what is left of the body for the next
// request.
func (x *exchange) hangUp() {
	x.http.SetConnectionClose()
	x.conn().linger.Store(true)
}

func (x *exchange) conn() *conn { return x.http.Conn().(*conn) }

func (x *exchange) reset() {
	if max(len(x.wire.b), len(x.plain.b)) > freeBytes { // a reader holds on to its last body, and to as much as that needed
		x.exposition, x.protobuf, x.otlp, x.remote = nil, nil, nil, nil
	}
	x.wire.release(&x.server.budget)
	x.plain.release(&x.server.budget)
	if cap(x.text) > freeBytes {
		x.text = nil
	}
	clear(x.labels[:cap(x.labels)])
	*x = exchange{
		server: x.server, origin: receiver.SenderResolver{Senders: x.server.senders}, wire: x.wire, plain: x.plain,
		text: x.text[:0], name: x.name[:0], labels: x.labels[:0],
		exposition: x.exposition, protobuf: x.protobuf, otlp: x.otlp, remote: x.remote,
	}
}

// answer finds the way by path, then by method.
func (x *exchange) answer() {
	if twoLengths(&x.http.Request.Header) {
		x.fail(ambiguousLength())
		return
	}
	m := x.method()
	r, f := x.server.routeTo(x.http.URI().PathOriginal())
	if f == nil && r.place != health {
		f = x.authenticate()
		if f == nil && !x.caller.known {
			f = x.checkOrigin()
		}
	}
	if f != nil {
		x.failAs(&r, m, f)
		return
	}
	switch {
	case r.place >= grouped:
		x.answerGateway(&r, m)
	case r.place == index && m == fasthttp.MethodGet:
		x.describe()
	case r.place == openapi && m == fasthttp.MethodGet:
		x.answerOpenAPI()
	case r.place == samples && m == fasthttp.MethodPost:
		x.pushSamples()
	case r.place == statsdLines && (m == fasthttp.MethodPost || m == fasthttp.MethodPut): // npm's statsd-client sends PUT
		x.pushStatsd()
	case r.place == remoteWriting && m == fasthttp.MethodPost:
		x.writeRemote()
	case r.place == otlpMetrics && m == fasthttp.MethodPost:
		x.pushOTLP()
	case r.place == series && m == fasthttp.MethodGet:
		x.read(&r)
	case r.place == series && m == fasthttp.MethodDelete:
		x.remove(&r)
	case r.place == series && (m == fasthttp.MethodPut || m == fasthttp.MethodPost):
		x.push(&r, m)
	default:
		x.fail(wrongMethod(r.place, m))
	}
}

// failAs answers with a fault as the path's protocol has it. It enters the ledger where the request is a push.
func (x *exchange) failAs(r *route, method string, f *fault) {
	if method != fasthttp.MethodPut && method != fasthttp.MethodPost {
		x.fail(f)
		return
	}
	switch r.place {
	case otlpMetrics:
		encoding, _ := otlpEncoding(x.http.Request.Header.ContentType())
		x.failOTLP(f, encoding)
	case samples, statsdLines, series, remoteWriting, grouped:
		x.failPush(f)
	default:
		x.fail(f)
	}
}

// method is the request's, where a HEAD is a GET whose body fasthttp leaves out.
func (x *exchange) method() string {
	if m := string(x.http.Method()); m != fasthttp.MethodHead {
		return m
	}
	return fasthttp.MethodGet
}

func wrongMethod(p place, m string) *fault {
	allow := map[place]string{
		index: "GET, HEAD", openapi: "GET, HEAD",
		samples:     "POST",
		statsdLines: "PUT, POST",
		otlpMetrics: "POST",
		series:      "GET, HEAD, PUT, POST, DELETE",
		grouped:     "PUT, POST, DELETE",
		exposed:     "GET, HEAD", groupList: "GET, HEAD", gatewayStatus: "GET, HEAD", health: "GET, HEAD",
		wipe: "PUT", remoteWriting: "POST",
	}[p]
	return &fault{
		status: fasthttp.StatusMethodNotAllowed, reason: "method", uncounted: true, allow: allow,
		message: m + " is not for this path, which takes " + allow,
	}
}

// expect implements the choice between "100 Continue" and refusing a body before it is sent.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if ctx.Request.Header.ContentLength() <= s.cfg.MaxBodyBytes {
		return fasthttp.StatusContinue
	}
	x := s.exchanges.Get().(*exchange)
	x.http = ctx
	r, _ := s.routeTo(ctx.URI().PathOriginal())
	x.failAs(&r, x.method(), x.tooLarge("the body", s.cfg.MaxBodyBytes))
	x.hangUp()
	status := ctx.Response.StatusCode()
	s.metrics.count(ctx.Method(), status)
	x.reset()
	s.exchanges.Put(x)
	return status
}
