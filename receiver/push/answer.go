package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/valyala/fasthttp"
)

const contentType = "application/json"

// pushAnswer is what a push is answered with. Error is there exactly if the status is neither 200 nor 202, Message if some
// of it is pending.
type pushAnswer struct {
	Error   *errorAnswer  `json:"error,omitempty"`
	Applied int           `json:"applied"`
	Refused int           `json:"refused"`
	Pending int           `json:"pending,omitempty"`
	Message string        `json:"message,omitempty"`
	Ignored int           `json:"ignored,omitempty"`
	Errors  []errorAnswer `json:"errors,omitempty"`
	// ErrorsLeftOut is how many of the refused are not in Errors.
	ErrorsLeftOut int `json:"errors_left_out,omitempty"`
}

// errorAnswer is one fault.
type errorAnswer struct {
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
	Line    *int     `json:"line,omitempty"`
	Offset  *int     `json:"offset,omitempty"`
	Paths   []string `json:"paths,omitempty"`
}

type deleteAnswer struct {
	Deleted int `json:"deleted"`
}

// replyApplied is by far the most frequent answer: n were applied, none refused. It is what reply makes of that.
func (x *exchange) replyApplied(n int) {
	x.http.SetStatusCode(fasthttp.StatusOK)
	x.http.SetContentType(contentType)
	x.text = strconv.AppendInt(append(x.text[:0], `{"applied":`...), int64(n), 10)
	x.text = append(x.text, ",\"refused\":0}\n"...)
	x.http.SetBody(x.text)
}

func (x *exchange) reply(status int, v any) { reply(x.http, status, v) }

func reply(ctx *fasthttp.RequestCtx, status int, v any) {
	ctx.SetStatusCode(status)
	ctx.SetContentType(contentType)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // none of our types can fail
		panic("push: an answer cannot be encoded: " + err.Error())
	}
	ctx.SetBody(b.Bytes())
}

// fail answers with a fault that is about no sample.
func (x *exchange) fail(f *fault) {
	x.failHeaders(f)
	x.reply(f.status, struct {
		Error *errorAnswer `json:"error"`
	}{f.answer()})
}

// failPush answers with a fault that refused the one sample, or the whole body; it enters the ledger.
func (x *exchange) failPush(f *fault) {
	if f.uncounted {
		x.fail(f)
		return
	}
	x.server.account.Count(f.counted)
	x.failHeaders(f)
	x.reply(f.status, pushAnswer{Error: f.answer(), Refused: 1})
}

func (x *exchange) failHeaders(f *fault) {
	header := &x.http.Response.Header
	if f.allow != "" {
		header.Set(fasthttp.HeaderAllow, f.allow)
	}
	for _, challenge := range f.challenges {
		header.Add(fasthttp.HeaderWWWAuthenticate, challenge)
	}
	if f.retryAfter {
		header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	if f.close {
		x.hangUp()
	}
}

func (f *fault) answer() *errorAnswer {
	a := &errorAnswer{Reason: f.reason, Message: f.message, Paths: f.paths}
	if f.line > 0 {
		a.Line = &f.line
	}
	if f.located {
		a.Offset = &f.offset
	}
	return a
}

// serveError implements fasthttp's ErrorHandler: requests that never came to the handler.
func (s *httpServer) serveError(ctx *fasthttp.RequestCtx, err error) {
	f := fault{status: fasthttp.StatusBadRequest, reason: "request", message: "the request is not HTTP/1.1: " + unframed(err)}
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &small):
		f.status = fasthttp.StatusRequestHeaderFieldsTooLarge
		f.message = fmt.Sprintf("the first line and the headers have more than %d bytes, which is the limit", s.cfg.MaxHeaderBytes)
	case errors.As(err, &network) && network.Timeout():
		f.status, f.reason = fasthttp.StatusRequestTimeout, "timeout"
		f.message = fmt.Sprintf("the request did not arrive within %v", s.cfg.ReadTimeout)
	}
	ctx.Response.Reset()
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
	reply(ctx, f.status, struct {
		Error *errorAnswer `json:"error"`
	}{f.answer()})
	s.metrics.count(ctx.Method(), f.status)
}
