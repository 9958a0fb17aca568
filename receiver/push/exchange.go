package push

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/valyala/fasthttp"
)

// exchange is one request on its way to its answer, with the memory that it needs for that. Exchanges are
// pooled: nothing of one outlives the request, and what the table is given is borrowed from it.
type exchange struct {
	server *httpServer
	http   *fasthttp.RequestCtx

	wire, plain buffer // the body as it came, and decompressed
	bodyRead    bool   // to its very end
	text        []byte // decoded pieces of the query, of JSON strings
	name        []byte // the metric of a path
	labels      []metric.Label
	sample      metric.Sample
	object      metric.Object
	origin      receiver.Origin
	caller      caller
	path        Path
}

// serve implements fasthttp.RequestHandler.
func (s *httpServer) serve(ctx *fasthttp.RequestCtx) {
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
	x.wire.release(&x.server.budget)
	x.plain.release(&x.server.budget)
	if cap(x.text) > freeBytes {
		x.text = nil
	}
	clear(x.labels[:cap(x.labels)])
	*x = exchange{
		server: x.server, origin: receiver.Origin{Senders: x.server.senders}, wire: x.wire, plain: x.plain,
		text: x.text[:0], name: x.name[:0], labels: x.labels[:0],
	}
}

// answer finds the route by path, then the handler by method.
func (x *exchange) answer() {
	if twoLengths(&x.http.Request.Header) {
		x.fail(ambiguousLength())
		return
	}
	r, f := x.server.router.find(x.http.URI().PathOriginal(), &x.path)
	if f == nil && !r.Public {
		f = x.authenticate()
		if f == nil && !x.caller.known {
			f = x.checkOrigin()
		}
	}
	m := x.method()
	if f != nil {
		x.failAs(r, m, f)
		return
	}
	if handle := r.handler(m); handle != nil {
		handle(x)
		return
	}
	x.fail(wrongMethod(r, m))
}

// failAs answers with a fault in the way of the route, if one was found. The fault of a push enters the accounts.
func (x *exchange) failAs(r *Route, method string, f *fault) {
	if r == nil || r.Fail == nil || method != fasthttp.MethodPut && method != fasthttp.MethodPost {
		x.fail(f)
		return
	}
	r.Fail(x, f)
}

// largeBody reports whether a reader that keeps memory in proportion to the body should not be used again.
func (x *exchange) largeBody() bool { return max(len(x.wire.b), len(x.plain.b)) > freeBytes }

// method is the request's, where a HEAD is a GET whose body fasthttp leaves out.
func (x *exchange) method() string {
	if m := string(x.http.Method()); m != fasthttp.MethodHead {
		return m
	}
	return fasthttp.MethodGet
}

// expect implements the choice between "100 Continue" and refusing a body before it is sent.
func (s *httpServer) expect(ctx *fasthttp.RequestCtx) int {
	if ctx.Request.Header.ContentLength() <= s.cfg.MaxBodyBytes {
		return fasthttp.StatusContinue
	}
	x := s.exchanges.Get().(*exchange)
	x.http = ctx
	r, _ := s.router.find(ctx.URI().PathOriginal(), &x.path)
	x.failAs(r, x.method(), x.tooLarge("the body", s.cfg.MaxBodyBytes))
	x.hangUp()
	status := ctx.Response.StatusCode()
	s.metrics.count(ctx.Method(), status)
	x.reset()
	s.exchanges.Put(x)
	return status
}

func (x *exchange) config() *ServerConfig { return &x.server.cfg }

func (x *exchange) target(namespace, resource, name string) (metric.Object, *fault) {
	return x.server.target(namespace, resource, name)
}

// takeApplier takes an Applier, which giveApplier gives back at the end of the batch.
func (x *exchange) takeApplier() *parked { return x.server.appliers.take(x.http.ConnID()) }

func (x *exchange) giveApplier(a *parked) { x.server.appliers.give(x.http.ConnID(), a) }

// count enters a sample that was not applied into the accounts, countBatch those that were.
func (x *exchange) count(r metric.Reason) { x.server.account.Count(r) }

func (x *exchange) countBatch(applied int) { x.server.account.CountBatch(uint64(applied)) }

// reserve takes memory for a body from the budget of all bodies, and unreserve gives it back. most is the most that there can be.
func (x *exchange) reserve(n int64) bool { return x.server.Reserve(n) }

func (x *exchange) unreserve(n int64) { x.server.Reserve(-n) }

func (x *exchange) most() int64 {
	return x.server.cfg.MaxBufferedBytes - x.wire.charged - x.plain.charged
}

// stopping is closed when the server begins to stop.
func (x *exchange) stopping() <-chan struct{} { return x.server.stopping }

func (x *exchange) canonical(resource string) (canonical string, namespaced bool, err error) {
	return x.server.resources.Canonical(resource)
}

// NewRequest makes a request that no client sent, for tests of protocols.
func NewRequest(cfg ServerConfig, resources Resources, body []byte) *exchange {
	return &exchange{server: &httpServer{cfg: cfg, resources: resources}, wire: buffer{b: body}}
}
