package httpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/valyala/fasthttp"
)

const ContentType = "application/json"

// PushAnswer answers a push. Error is set exactly if the status is neither 200 nor 202, Message if
// samples are pending.
type PushAnswer struct {
	Error    *ErrorAnswer  `json:"error,omitempty"`
	Applied  int           `json:"applied"`
	Rejected int           `json:"refused"`
	Pending  int           `json:"pending,omitempty"`
	Message  string        `json:"message,omitempty"`
	Ignored  int           `json:"ignored,omitempty"`
	Replica  string        `json:"replica,omitempty"`
	Errors   []ErrorAnswer `json:"errors,omitempty"`
	// ErrorsLeftOut is how many rejected samples Errors leaves out.
	ErrorsLeftOut int `json:"errors_left_out,omitempty"`
}

// ErrorAnswer is one fault.
type ErrorAnswer struct {
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
	Line    *int     `json:"line,omitempty"`
	Offset  *int     `json:"offset,omitempty"`
	Paths   []string `json:"paths,omitempty"`
}

// DeleteAnswer answers a deletion.
type DeleteAnswer struct {
	Deleted int    `json:"deleted"`
	Replica string `json:"replica,omitempty"`
}

// ReplyApplied writes the most frequent answer, n applied and none rejected, without encoding/json.
func (x *Request) ReplyApplied(n int) {
	if x.replica != "" {
		x.Reply(fasthttp.StatusOK, PushAnswer{Applied: n, Replica: x.replica})
		return
	}
	x.HTTP.SetStatusCode(fasthttp.StatusOK)
	x.HTTP.SetContentType(ContentType)
	x.Text = strconv.AppendInt(append(x.Text[:0], `{"applied":`...), int64(n), 10)
	x.Text = append(x.Text, ",\"refused\":0}\n"...)
	x.HTTP.SetBody(x.Text)
}

// SmallAnswer is the size of an answer that is in no budget.
const SmallAnswer = body.FreeBytes

// Reply answers with a status and JSON. A large answer to a GET, which its client may read slowly, is in the budget of
// bodies until it is written.
func (x *Request) Reply(status int, v any) {
	text := encode(v)
	if len(text) <= SmallAnswer || x.Method() != fasthttp.MethodGet {
		reply(x.HTTP, status, text)
		return
	}
	release, held := x.Hold(int64(len(text)))
	if !held {
		x.failBusy()
		return
	}
	reply(x.HTTP, status, nil)
	x.HTTP.SetBodyStream(&heldText{*bytes.NewReader(text), release}, len(text))
}

// heldText is an answer that is written.
type heldText struct {
	bytes.Reader
	release func()
}

// Close implements io.Closer: the answer is written, or its client is gone.
func (h *heldText) Close() error {
	h.release()
	return nil
}

// Stream answers with 200 and a text that write writes piece by piece. It takes memory of the budget of bodies until then,
// of which a quarter is enough for any. write must not use the request (Pieces).
func (x *Request) Stream(contentType string, memory int64, write func(*bufio.Writer) error) {
	release, held := x.Hold(min(memory, x.server.budget.Max/4))
	if !held {
		x.failBusy()
		return
	}
	x.HTTP.SetContentType(contentType)
	x.Pieces(release, write)
}

// Pieces answers with a body that write writes piece by piece, and then calls release. write runs after the request has
// returned to its pool, so it must not use it.
func (x *Request) Pieces(release func(), write func(*bufio.Writer) error) {
	if x.HTTP.IsHead() { // fasthttp would close the stream unread
		release()
		return
	}
	x.HTTP.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer release()
		_ = write(w) // the client is gone
	})
}

// BeginPage waits for a place for a long answer, in turns of namespaces, or else of senders. name is that of the pages.
func (x *Request) BeginPage(pages *connlimit.Pages, name string) (*connlimit.Page, *Fault) {
	page := pages.Begin(x.server.life, x.ShareName(), x.peer().Member.Reset)
	if page == nil {
		return nil, TooBusy("pages of %s are being written, as many as may be at once, in all or to this sender; try again in a moment", name)
	}
	x.origin.Reset()
	if f := x.checkHolder(false); f != nil { // the address is another pod's meanwhile
		page.End()
		return nil, f
	}
	return page, nil
}

// WritePage is Pieces for a page, which ends then.
func (x *Request) WritePage(page *connlimit.Page, write func(*bufio.Writer) error) {
	x.Pieces(page.End, func(w *bufio.Writer) error {
		own := bufio.NewWriter(page.Writer(w))
		if err := write(own); err != nil {
			return err
		}
		return own.Flush()
	})
}

// failBusy rejects a large answer.
func (x *Request) failBusy() {
	f := x.Busy()
	f.Close = false
	x.Fail(f)
}

func reply(ctx *fasthttp.RequestCtx, status int, text []byte) {
	ctx.SetStatusCode(status)
	ctx.SetContentType(ContentType)
	ctx.Response.SetBodyRaw(text) // no copy, which the connection would keep
}

// encode encodes an answer. One that cannot be encoded is a fault of this code alone, and no reason to end the process.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte(`{"error":{"reason":"internal","message":"the answer cannot be encoded"}}` + "\n")
	}
	return b.Bytes()
}

// Fail answers with a fault that rejects no sample.
func (x *Request) Fail(f *Fault) {
	x.FailHeaders(f)
	x.Reply(f.Status, struct {
		Error *ErrorAnswer `json:"error"`
	}{f.Answer()})
}

// FailPush answers with a fault that rejects the one sample, or the whole body, and counts it.
func (x *Request) FailPush(f *Fault) {
	if f.Uncounted {
		x.Fail(f)
		return
	}
	x.CountRejected(f, x.Path.Metric, 1)
	x.FailHeaders(f)
	x.Reply(f.Status, PushAnswer{Error: f.Answer(), Rejected: 1})
}

// FailHeaders sets the headers of an answer with a fault.
func (x *Request) FailHeaders(f *Fault) {
	x.fault = f
	header := &x.HTTP.Response.Header
	if f.allow != "" {
		header.Set(fasthttp.HeaderAllow, f.allow)
	}
	for _, challenge := range f.challenges {
		header.Add(fasthttp.HeaderWWWAuthenticate, challenge)
	}
	if f.retryAfter {
		header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	if f.Close {
		x.hangUp()
	}
}

// Answer is the fault in JSON.
func (f *Fault) Answer() *ErrorAnswer {
	a := &ErrorAnswer{Reason: f.Reason, Message: f.Message, Paths: f.paths}
	if f.Line > 0 {
		a.Line = &f.Line
	}
	if f.located {
		a.Offset = &f.Offset
	}
	return a
}

// serveError implements fasthttp's ErrorHandler, for requests that never reach serve.
func (s *Server) serveError(ctx *fasthttp.RequestCtx, err error) {
	f := Fault{Status: fasthttp.StatusBadRequest, Reason: "request",
		Message: "the request is not HTTP/1.1: " + unframed(err)}
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &small):
		f.Status = fasthttp.StatusRequestHeaderFieldsTooLarge
		f.Message = fmt.Sprintf("the first line and the headers have more than %d bytes, which is the limit",
			s.cfg.MaxHeaderBytes)
	case errors.As(err, &network) && network.Timeout():
		f.Status, f.Reason = fasthttp.StatusRequestTimeout, "timeout"
		f.Message = fmt.Sprintf("the request did not arrive within %v", s.cfg.ReadTimeout)
	}
	ctx.Response.Reset()
	if c, ok := ctx.Conn().(*listener.Conn); ok {
		c.Linger.Store(true)
	}
	reply(ctx, f.Status, encode(struct {
		Error *ErrorAnswer `json:"error"`
	}{f.Answer()}))
	s.metrics.count(ctx.Method(), f.Status)
	dropRequest(ctx)
}
