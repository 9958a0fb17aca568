package httpserver

import (
	"bytes"
	"fmt"

	"github.com/valyala/fasthttp"
)

// The bounds of heads: of first lines with their headers. fasthttp takes up to forty times the bytes of many short headers,
// three times those of long ones, and keeps that with the connection: for each header the longest that was ever in its place.
const (
	// maxHeaders bounds the headers of a request, its cookies and trailers among them.
	maxHeaders = 100
	// keptHeads bounds the heads, in bytes, whose memory a connection keeps: of some requests as clients send them.
	keptHeads = 4 << 10
	// freeHeads is the memory of heads, of one request and of those that are kept, which does not count as that of the body.
	freeHeads = 8 << 10
)

// crowded is the method of a request with too many headers. No client can send it.
const crowded = "too many headers"

// dropCrowd implements fasthttp's HeaderReceived. It drops too many headers before anything waits for the body.
func dropCrowd(h *fasthttp.RequestHeader) (same fasthttp.RequestConfig) {
	n := bytes.Count(h.RawHeaders(), []byte{'\n'}) + len(h.PeekTrailerKeys())
	for _, cookies := range h.PeekAll(fasthttp.HeaderCookie) {
		n += bytes.Count(cookies, []byte{';'})
	}
	if n > maxHeaders {
		*h = fasthttp.RequestHeader{}
		h.SetMethod(crowded)
	}
	return same
}

func tooManyHeaders() *Fault {
	return &Fault{
		Status: fasthttp.StatusRequestHeaderFieldsTooLarge, Reason: "request", Uncounted: true, Close: true,
		Message: fmt.Sprintf("the request has more than %d headers, cookies and trailers, which is the limit", maxHeaders),
	}
}

func headBytes(h *fasthttp.RequestHeader) int {
	return len(h.Method()) + len(h.RequestURI()) + len(h.RawHeaders())
}

// besideBody is the memory of heads that counts as that of the body, so that a connection has little in no budget.
func (x *Request) besideBody() int64 {
	return int64(max(3*(x.conn().Heads+headBytes(&x.HTTP.Request.Header))-freeHeads, 0))
}

// endHead has the connection keep little of heads. Before its first request the memory was another connection's.
func (x *Request) endHead() {
	c := x.conn()
	c.Heads += headBytes(&x.HTTP.Request.Header)
	if c.Heads > keptHeads || x.HTTP.ConnRequestNum() == 1 {
		c.Heads = 0
		dropRequest(x.HTTP)
	}
}

// dropRequest drops the memory of a request that was answered. It leaves what fasthttp still asks: whether the answer has a
// body, and the version.
func dropRequest(ctx *fasthttp.RequestCtx) {
	isHead, is11 := ctx.IsHead(), ctx.Request.Header.IsHTTP11()
	ctx.Request = fasthttp.Request{}
	if isHead {
		ctx.Request.Header.SetMethod(fasthttp.MethodHead)
	}
	if !is11 {
		ctx.Request.Header.SetProtocol("HTTP/1.0")
	}
}
