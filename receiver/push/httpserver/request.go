package httpserver

import (
	"net/netip"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/valyala/fasthttp"
)

// A Request is one HTTP request and its answer, with the memory that handling it takes. Requests
// are pooled: nothing of one outlives its answer, and the table borrows samples from it.
type Request struct {
	server *Server
	HTTP   *fasthttp.RequestCtx

	wire, plain body.Buffer // the body as received, and decompressed
	bodyRead    bool        // to its end
	Text        []byte      // scratch: decoded pieces of the query, of JSON strings
	Name        []byte      // the metric of a path
	Labels      []metric.Label
	Sample      metric.Sample
	Object      metric.Object
	origin      receiver.SenderResolver
	caller      caller
	Path        Path
	replica     string // set by Sync
	unchecked   metric.Sender
	call        *Call  // nil: the request came over HTTP/1.1
	fault       *Fault // what it was answered with
	heavy       heavyPlace
}

// serve implements fasthttp.RequestHandler.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	s.metrics.inFlight.Add(1)
	x := s.requests.Get().(*Request)
	x.HTTP = ctx
	member := x.conn().Member
	if n := ctx.Request.Header.ContentLength(); n == 0 || n == noBody {
		member.Busy() // with a body: ReadBody
	}
	x.answer()
	member.Idle()
	if n := ctx.Request.Header.ContentLength(); !x.bodyRead && n != 0 && n != noBody {
		x.hangUp()
	}
	s.metrics.count(ctx.Method(), ctx.Response.StatusCode())
	s.metrics.duration.Observe(time.Since(ctx.Time()).Seconds())
	x.endHead()
	x.reset()
	s.requests.Put(x)
	s.metrics.inFlight.Add(-1)
}

// noBody is fasthttp's length of a body that no header announces.
const noBody = -2

// hangUp closes the connection after the answer. Otherwise fasthttp would read the rest of the body
// as the next request.
func (x *Request) hangUp() {
	if x.call != nil {
		return
	}
	x.HTTP.SetConnectionClose()
	x.conn().Linger.Store(true)
}

// peer is the other end of the request's connection.
func (x *Request) peer() *listener.Peer {
	if x.call != nil {
		return x.call.Peer
	}
	return &x.conn().Peer
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
	switch {
	case string(x.HTTP.Method()) == crowded:
		x.Fail(tooManyHeaders())
		return
	case twoLengths(&x.HTTP.Request.Header):
		x.Fail(ambiguousLength())
		return
	}
	r, f := x.server.Router.Find(x.HTTP.URI().PathOriginal(), &x.Path)
	if f == nil && !r.Public {
		f = x.authenticate()
		if f == nil && !x.caller.known {
			f = x.checkOrigin()
		}
		if f == nil {
			f = x.checkHolder(false)
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

// failAs answers with a fault as the route does, if one was found. The fault of a push is counted.
func (x *Request) failAs(r *Route, method string, f *Fault) {
	if r == nil || r.Fail == nil || method != fasthttp.MethodPut && method != fasthttp.MethodPost {
		x.Fail(f)
		return
	}
	r.Fail(x, f)
}

// LargeBody reports whether the body was so large that a reader, which keeps memory in proportion
// to its last body, should not be used again.
func (x *Request) LargeBody() bool { return max(len(x.wire.B), len(x.plain.B)) > body.FreeBytes }

// Method returns the request's method; HEAD is GET, because fasthttp leaves out the body of the
// answer.
func (x *Request) Method() string {
	if m := string(x.HTTP.Method()); m != fasthttp.MethodHead {
		return m
	}
	return fasthttp.MethodGet
}

// expect decides between "100 Continue" and rejecting a body before it is sent.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if ctx.Request.Header.ContentLength() <= s.cfg.MaxBodyBytes {
		ctx.Conn().(*listener.Conn).Unsent = func() { dropRequest(ctx) } // fasthttp ends without a word if it cannot send this
		return fasthttp.StatusContinue
	}
	x := s.requests.Get().(*Request)
	x.HTTP = ctx
	r, _ := s.Router.Find(ctx.URI().PathOriginal(), &x.Path)
	x.failAs(r, x.Method(), x.tooLarge("the body", s.cfg.MaxBodyBytes))
	x.hangUp()
	status := ctx.Response.StatusCode()
	s.metrics.count(ctx.Method(), status)
	dropRequest(ctx)
	x.reset()
	s.requests.Put(x)
	return status
}

// Config returns the server's configuration.
func (x *Request) Config() *Config { return &x.server.cfg }

// Target returns the object that a path or a line names.
func (x *Request) Target(namespace, resource, name string) (metric.Object, *Fault) {
	return x.server.target(namespace, resource, name)
}

// TakeApplier takes an Applier for a sender that pushes. Data that sockets hold is applied before.
func (x *Request) TakeApplier() *PooledApplier {
	x.heard()
	if x.server.freshen != nil {
		x.server.freshen()
	}
	return x.server.appliers.take(x.near())
}

// near is the same number for all requests of a connection.
func (x *Request) near() uint64 {
	if x.call != nil {
		return x.call.Near
	}
	return x.HTTP.ConnID()
}

// GiveApplier returns an Applier at the end of a batch.
func (x *Request) GiveApplier(a *PooledApplier) { x.server.appliers.give(x.near(), a) }

// CountBatch counts applied samples.
func (x *Request) CountBatch(applied int) { x.server.account.CountApplied(uint64(applied)) }

// Hold takes memory from the budget of all bodies, of the request's share, until release is called.
func (x *Request) Hold(n int64) (release func(), held bool) {
	return x.server.budget.Hold(x.share(), n)
}

// share is that of the sender's namespace, otherwise that of its address. It is known before the body is.
func (x *Request) share() body.Share {
	if account := x.caller.account; account != nil {
		return shareOf(account.Namespace, x.From())
	}
	return shareOf(x.origin.Sender(x.peer().Remote).Namespace(), x.From())
}

// Share is that of a connection, before it is known who calls.
func (s *Server) Share(peer *listener.Peer) body.Share {
	origin := receiver.SenderResolver{Senders: s.senders}
	return shareOf(origin.Sender(peer.Remote).Namespace(), peer.Member.From)
}

func shareOf(namespace string, from netip.Prefix) body.Share {
	if namespace != "" {
		return body.Share{Namespace: namespace}
	}
	return body.Share{From: from}
}

// Most returns the largest amount that Hold could ever grant: what one share may have, beside the body.
func (x *Request) Most() int64 {
	charged := x.wire.Charged + x.plain.Charged
	return fair.More(charged, x.server.cfg.MaxBufferedBytes-charged)
}

// Stopping is closed when the server begins to stop.
func (x *Request) Stopping() <-chan struct{} { return x.server.stopping }

// Canonical is Resources.Canonical.
func (x *Request) Canonical(resource string) (canonical string, namespaced bool, err error) {
	return x.server.resources.Canonical(resource)
}

// NewRequest makes a request that no client sent, for the tests of protocols.
func NewRequest(cfg Config, resources Resources, wire []byte) *Request {
	return &Request{server: &Server{cfg: cfg, resources: resources}, wire: body.Buffer{B: wire}}
}
