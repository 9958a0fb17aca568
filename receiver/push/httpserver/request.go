package httpserver

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/valyala/fasthttp"
)

// exchange is one request on its way to its answer, with the memory that it needs for that. Exchanges are
// pooled: nothing of one outlives the request, and what the table is given is borrowed from it.
type Request struct {
	server *Server
	HTTP   *fasthttp.RequestCtx

	wire, plain body.Buffer // the body as it came, and decompressed
	bodyRead    bool        // to its very end
	Text        []byte      // decoded pieces of the query, of JSON strings
	Name        []byte      // the metric of a path
	Labels      []metric.Label
	Sample      metric.Sample
	Object      metric.Object
	origin      receiver.SenderResolver
	caller      caller
	Path        Path
}

// serve implements fasthttp.RequestHandler.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	s.metrics.inFlight.Add(1)
	x := s.exchanges.Get().(*Request)
	x.HTTP = ctx
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
func (x *Request) hangUp() {
	x.HTTP.SetConnectionClose()
	x.conn().Linger.Store(true)
}

func (x *Request) conn() *listener.Conn { return x.HTTP.Conn().(*listener.Conn) }

func (x *Request) reset() {
	x.wire.Release(&x.server.budget)
	x.plain.Release(&x.server.budget)
	if cap(x.Text) > body.FreeBytes {
		x.Text = nil
	}
	clear(x.Labels[:cap(x.Labels)])
	*x = Request{
		server: x.server, origin: receiver.SenderResolver{Senders: x.server.senders}, wire: x.wire, plain: x.plain,
		Text: x.Text[:0], Name: x.Name[:0], Labels: x.Labels[:0],
	}
}

// answer finds the route by path, then the handler by method.
func (x *Request) answer() {
	if twoLengths(&x.HTTP.Request.Header) {
		x.Fail(ambiguousLength())
		return
	}
	r, f := x.server.Router.Find(x.HTTP.URI().PathOriginal(), &x.Path)
	if f == nil && !r.Public {
		f = x.authenticate()
		if f == nil && !x.caller.known {
			f = x.checkOrigin()
		}
	}
	m := x.Method()
	if f != nil {
		x.failAs(r, m, f)
		return
	}
	if handle := r.Handler(m); handle != nil {
		handle(x)
		return
	}
	x.Fail(wrongMethod(r, m))
}

// failAs answers with a fault in the way of the route, if one was found. The fault of a push enters the accounts.
func (x *Request) failAs(r *Route, method string, f *Fault) {
	if r == nil || r.Fail == nil || method != fasthttp.MethodPut && method != fasthttp.MethodPost {
		x.Fail(f)
		return
	}
	r.Fail(x, f)
}

// largeBody reports whether a reader that keeps memory in proportion to the body should not be used again.
func (x *Request) LargeBody() bool { return max(len(x.wire.B), len(x.plain.B)) > body.FreeBytes }

// method is the request's, where a HEAD is a GET whose body fasthttp leaves out.
func (x *Request) Method() string {
	if m := string(x.HTTP.Method()); m != fasthttp.MethodHead {
		return m
	}
	return fasthttp.MethodGet
}

// expect implements the choice between "100 Continue" and refusing a body before it is sent.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if ctx.Request.Header.ContentLength() <= s.cfg.MaxBodyBytes {
		return fasthttp.StatusContinue
	}
	x := s.exchanges.Get().(*Request)
	x.HTTP = ctx
	r, _ := s.Router.Find(ctx.URI().PathOriginal(), &x.Path)
	x.failAs(r, x.Method(), x.tooLarge("the body", s.cfg.MaxBodyBytes))
	x.hangUp()
	status := ctx.Response.StatusCode()
	s.metrics.count(ctx.Method(), status)
	x.reset()
	s.exchanges.Put(x)
	return status
}

func (x *Request) Config() *Config { return &x.server.cfg }

func (x *Request) Target(namespace, resource, name string) (metric.Object, *Fault) {
	return x.server.target(namespace, resource, name)
}

// takeApplier takes an Applier, which giveApplier gives back at the end of the batch.
func (x *Request) TakeApplier() *PooledApplier { return x.server.appliers.take(x.HTTP.ConnID()) }

func (x *Request) GiveApplier(a *PooledApplier) { x.server.appliers.give(x.HTTP.ConnID(), a) }

// count enters a sample that was not applied into the accounts, countBatch those that were.
func (x *Request) Count(r metric.Reason) { x.server.account.Count(r) }

func (x *Request) CountBatch(applied int) { x.server.account.CountApplied(uint64(applied)) }

// reserve takes memory for a body from the budget of all bodies, and unreserve gives it back. most is the most that there can be.
func (x *Request) Reserve(n int64) bool { return x.server.Reserve(n) }

func (x *Request) Unreserve(n int64) { x.server.Reserve(-n) }

func (x *Request) Most() int64 {
	return x.server.cfg.MaxBufferedBytes - x.wire.Charged - x.plain.Charged
}

// stopping is closed when the server begins to stop.
func (x *Request) Stopping() <-chan struct{} { return x.server.stopping }

func (x *Request) Canonical(resource string) (canonical string, namespaced bool, err error) {
	return x.server.resources.Canonical(resource)
}

// NewRequest makes a request that no client sent, for tests of protocols.
func NewRequest(cfg Config, resources Resources, wire []byte) *Request {
	return &Request{server: &Server{cfg: cfg, resources: resources}, wire: body.Buffer{B: wire}}
}
