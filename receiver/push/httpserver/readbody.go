package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/valyala/fasthttp"
)

// ReadBody reads the whole body and decodes its Content-Encoding. The request owns the result.
//
// fasthttp streams the body, so that it costs memory as it arrives and not as it is announced.
// fasthttp reports a body whose client went away early as if it were complete; ReadBody detects
// that.
func (x *Request) ReadBody() ([]byte, *Fault) {
	if x.call != nil {
		return x.readMessage()
	}
	header := &x.HTTP.Request.Header
	announced, max := header.ContentLength(), x.server.cfg.MaxBodyBytes
	if announced > max {
		return nil, x.tooLarge("the body", max)
	}
	stream := x.HTTP.RequestBodyStream()
	if stream == nil {
		return nil, nil
	}
	x.wire.Share, x.wire.Beside = x.share(), x.besideBody()
	err := x.wire.Fill(stream, &x.server.budget, max)
	if err == nil && (announced >= 0 && len(x.wire.B) < announced || announced < 0 && x.conn().Ended) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, x.unreadable(err)
	}
	if announced < 0 && header.Len() > maxHeaders { // trailers are headers by now
		return nil, tooManyHeaders()
	}
	x.bodyRead = true
	x.conn().Member.Busy()
	x.server.account.AddPackets(1, uint64(len(x.wire.B)))
	if f := x.CheckSender(); f != nil {
		return nil, f
	}
	return x.decode(header.ContentEncoding())
}

// unreadable words why a body did not arrive. Its end is unknown, so the connection is closed.
func (x *Request) unreadable(err error) *Fault {
	var network net.Error
	var f *Fault
	switch {
	case errors.Is(err, body.ErrTooLarge):
		return x.tooLarge("the body", x.maxBody())
	case errors.Is(err, body.ErrBusy):
		return x.Busy()
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, fasthttp.ErrTimeout):
		f = BadRequest("the body did not arrive within %v", x.patience())
		f.Status, f.Reason = fasthttp.StatusRequestTimeout, "timeout"
	default:
		f = BadRequest("the body cannot be read: %q", err.Error())
	}
	f.Close = true
	return f
}

func (x *Request) tooLarge(what string, max int) *Fault {
	f := Rejected(metric.TooLong, "%s has more than %d bytes, which is the limit: send it in parts", what, max)
	f.Status, f.Close = fasthttp.StatusRequestEntityTooLarge, true
	return f
}

// Busy makes the fault of a body, or of an answer, that exceeds the memory budget of all bodies.
func (x *Request) Busy() *Fault {
	f := Rejected(metric.OverLimit, "bodies in flight use up this sender's share of %d bytes, of which it has less while memory is short: send it again in a moment", x.server.cfg.MaxBufferedBytes)
	f.Status, f.Reason, f.Close, f.retryAfter = fasthttp.StatusServiceUnavailable, busyReason, true, true
	return f
}

// decode decodes the Content-Encoding of the body in x.wire.
func (x *Request) decode(name []byte) ([]byte, *Fault) {
	if said := x.HTTP.Request.Header.PeekAll(fasthttp.HeaderContentEncoding); len(said) > 1 {
		name = bytes.Join(said, []byte(", ")) // as one list (RFC 9110, section 5.3), which is no known coding
	}
	if len(name) == 0 || bytes.EqualFold(name, []byte("identity")) {
		return x.wire.B, nil
	}
	max := x.maxDecompressed()
	if 3*x.server.budget.Max >= 4*int64(x.maxBody()+max) { // else a body in both forms would not fit
		x.plain.Share = x.wire.Share
	}
	coding, err := body.Decode(x.context(), string(name), x.From(), x.wire.B, &x.plain, &x.server.budget, max)
	var f *Fault
	switch {
	case err == nil:
		return x.plain.B, nil
	case errors.Is(err, body.ErrUnknownCoding):
		f = BadRequest("%s %q is not supported; must be one of gzip, deflate, snappy, zstd", x.codingHeader(), Clip(name))
		f.Status, f.Reason = fasthttp.StatusUnsupportedMediaType, "encoding"
	case errors.Is(err, body.ErrTooLarge):
		f = x.tooLarge("the decompressed body", max)
	case errors.Is(err, body.ErrBusy):
		f = x.Busy()
	case errors.Is(err, body.ErrCrowded):
		f = tooCrowded("more compressed bodies wait than processors can decompress")
	default:
		f = Rejected(metric.Malformed, "the body is not what %s says, %s: %q", x.codingHeader(), coding, err.Error())
	}
	f.Close = false // the whole body was read, so the connection can go on
	return nil, f
}

// twoLengths reports whether a request gives the length of its body twice, as chunks and as
// Content-Length. A proxy in front may have believed the other one: the rest of the body for one of
// the two is the next request for the other (request smuggling).
func twoLengths(h *fasthttp.RequestHeader) bool {
	if h.ContentLength() != chunkedBody { // fasthttp prefers chunks, whichever header is first
		return false
	}
	for line := range bytes.Lines(h.RawHeaders()) {
		if key, _, _ := bytes.Cut(line, []byte{':'}); bytes.EqualFold(key, []byte(fasthttp.HeaderContentLength)) {
			return true
		}
	}
	return false
}

// chunkedBody is fasthttp's length of a body in chunks.
const chunkedBody = -1

// ambiguousLength also closes the connection, as RFC 9112 requires in section 6.1.
func ambiguousLength() *Fault {
	return &Fault{
		Status: fasthttp.StatusBadRequest, Reason: "request", Uncounted: true, Close: true,
		Message: "the request has Transfer-Encoding and Content-Length, which may contradict each other: send one of them",
	}
}

// unframed words what is wrong with a request whose first line or headers fasthttp could not read.
func unframed(err error) string {
	for _, known := range framingFaults {
		if errors.Is(err, known.err) {
			return known.words
		}
	}
	if inner := errors.Unwrap(err); inner != nil { // the outer error is about the buffer
		err = inner
	}
	return string(Clip([]byte(strings.TrimPrefix(err.Error(), "fasthttp: "))))
}

var framingFaults = []struct {
	err   error
	words string
}{
	{fasthttp.ErrMissingRequestMethod, firstLine},
	{fasthttp.ErrUnsupportedRequestMethod, "its method has other characters than those of a token: " + firstLine},
	{fasthttp.ErrExtraWhitespaceInRequestLine, "its first line has more than two spaces: " + firstLine},
	{fasthttp.ErrEmptyRequestURI, "its path is empty: " + firstLine},
	{fasthttp.ErrDuplicateContentLength, "it has more than one Content-Length: send one"},
	{fasthttp.ErrNonNumericChars, "its Content-Length is not a number of bytes"},
	{fasthttp.ErrUnsupportedTransferEncoding, "its Transfer-Encoding is not chunked, which alone is understood"},
	{fasthttp.ErrNeedMore, "it ends before its headers do: an empty line follows them"},
	{io.ErrUnexpectedEOF, "it ends before its headers do: an empty line follows them"},
}

const firstLine = `want a first line as in "PUT /v1/external/orders HTTP/1.1"`
