package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/valyala/fasthttp"
)

// A Call is a POST that did not come over HTTP/1.1. The routes answer it as they answer the request with the
// same path, headers and body: with the same rights, limits, memory and accounts.
type Call struct {
	// Context ends when the client gives up.
	Context context.Context
	Peer    *listener.Peer
	Near    uint64 // the same for all calls of a connection
	Path    string
	Host    string

	ContentType   string
	Authorization []string

	// Head reads what precedes the body: its size and its content coding. It is called once the credential
	// was checked. Its error may be a *Fault.
	Head func() (size int, coding string, err error)
	// Body is read to its end after Head.
	Body io.Reader
	// CodingHeader is the name under which the client gives the content coding.
	CodingHeader string
	// Max bounds the body, as received and decompressed.
	Max int
	// Within is the time in which the body has to arrive. Body enforces it by an error whose Timeout is true.
	Within time.Duration
	// Arrived is called when the whole body is there.
	Arrived func()
}

// contexts are fasthttp's, for the requests that calls are made into.
var contexts = sync.Pool{New: func() any { return new(fasthttp.RequestCtx) }}

// Call answers a call: with a fault, or else with the body of the answer; and with a warning for the
// client, which may be empty. The call's memory is released before the answer is written, so a client that
// doesn't read it holds none.
func (s *Server) Call(c *Call) (f *Fault, answer []byte, warning string) {
	ctx := contexts.Get().(*fasthttp.RequestCtx)
	header := &ctx.Request.Header
	header.SetMethod(fasthttp.MethodPost)
	header.SetRequestURI(c.Path)
	header.SetHost(c.Host)
	header.SetContentType(c.ContentType)
	for _, credential := range c.Authorization {
		header.Add(fasthttp.HeaderAuthorization, credential)
	}
	x := s.requests.Get().(*Request)
	x.HTTP, x.call = ctx, c
	x.answer()
	if x.bodyRead {
		c.Peer.Member.End()
	}
	f, answer = x.fault, bytes.Clone(ctx.Response.Body())
	warning = string(ctx.Response.Header.Peek(fasthttp.HeaderWarning))
	x.reset()
	s.requests.Put(x)
	ctx.Request.Reset()
	ctx.Response.Reset()
	contexts.Put(ctx)
	return f, answer, warning
}

// readMessage is ReadBody for a call. All memory of the body is charged.
func (x *Request) readMessage() ([]byte, *Fault) {
	c := x.call
	x.wire, x.plain = body.Buffer{All: true, Share: x.share()}, body.Buffer{All: true}
	size, coding, err := c.Head()
	if err == nil && size > c.Max {
		return nil, x.tooLarge("the message", c.Max)
	}
	if err == nil {
		err = x.wire.Fill(c.Body, &x.server.budget, c.Max)
	}
	if err == nil && len(x.wire.B) < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		if f := new(Fault); errors.As(err, &f) {
			return nil, f
		}
		return nil, x.unreadable(err)
	}
	x.bodyRead = true
	c.Arrived()
	c.Peer.Member.Begin()
	x.server.account.AddPackets(1, uint64(len(x.wire.B)))
	if f := x.CheckSender(); f != nil {
		return nil, f
	}
	return x.decode([]byte(coding))
}

// patience is the time that a body has to arrive in.
func (x *Request) patience() time.Duration {
	if x.call != nil {
		return x.call.Within
	}
	return x.server.cfg.ReadTimeout
}

// maxBody bounds the body as received, maxDecompressed the same body decompressed.
func (x *Request) maxBody() int {
	if x.call != nil {
		return x.call.Max
	}
	return x.server.cfg.MaxBodyBytes
}

func (x *Request) maxDecompressed() int {
	if x.call != nil {
		return x.call.Max
	}
	return x.server.cfg.MaxDecompressed()
}

func (x *Request) codingHeader() string {
	if x.call != nil {
		return x.call.CodingHeader
	}
	return fasthttp.HeaderContentEncoding
}
