package push

import (
	"bytes"
	"errors"
	"io"
	"net"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// readBody reads the whole body and takes its Content-Encoding off. What it returns is the exchange's.
//
// fasthttp is told to stream, so that the body costs memory as it arrives and not as it is announced. It
// reports a body whose client went away early as if it were whole; that is found out here.
func (x *exchange) readBody() ([]byte, *fault) {
	header := &x.http.Request.Header
	announced, max := header.ContentLength(), x.server.cfg.MaxBodyBytes
	if announced > max {
		return nil, x.tooLarge("the body", max)
	}
	stream := x.http.RequestBodyStream()
	if stream == nil {
		return nil, nil
	}
	err := x.wire.fill(stream, &x.server.budget, max)
	if err == nil && (announced >= 0 && len(x.wire.b) < announced || announced < 0 && x.conn().ended) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, x.unreadable(err)
	}
	x.bodyRead = true
	x.server.account.Packets(1, uint64(len(x.wire.b)))
	return x.decode(header.ContentEncoding())
}

// unreadable is a body that did not arrive: its end is not known, so the connection goes with it.
func (x *exchange) unreadable(err error) *fault {
	var network net.Error
	var f *fault
	switch {
	case errors.Is(err, errTooLarge):
		return x.tooLarge("the body", x.server.cfg.MaxBodyBytes)
	case errors.Is(err, errBusy):
		return x.busy()
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, fasthttp.ErrTimeout):
		f = badRequest("the body did not arrive within %v", x.server.cfg.ReadTimeout)
		f.status, f.reason = fasthttp.StatusRequestTimeout, "timeout"
	default:
		f = badRequest("the body cannot be read: %q", err.Error())
	}
	f.close = true
	return f
}

func (x *exchange) tooLarge(what string, max int) *fault {
	f := refused(metric.TooLong, "%s has more than %d bytes, which is the limit: send it in parts", what, max)
	f.status, f.close = fasthttp.StatusRequestEntityTooLarge, true
	return f
}

func (x *exchange) busy() *fault {
	f := refused(metric.OverLimit, "the bodies in flight have more than %d bytes, which is the limit: send it again in a moment", x.server.cfg.MaxBufferedBytes)
	f.status, f.reason, f.close, f.retryAfter = fasthttp.StatusServiceUnavailable, "busy", true, true
	return f
}

// decode takes the content coding off the body that lies in x.wire.
func (x *exchange) decode(name []byte) ([]byte, *fault) {
	if said := x.http.Request.Header.PeekAll(fasthttp.HeaderContentEncoding); len(said) > 1 {
		name = bytes.Join(said, []byte(", ")) // as one list (RFC 9110, section 5.3), which no coding of ours is
	}
	if len(name) == 0 || bytes.EqualFold(name, []byte("identity")) {
		return x.wire.b, nil
	}
	max := x.server.cfg.maxDecompressed()
	coding, err := decodeBody(string(name), x.wire.b, &x.plain, &x.server.budget, max)
	var f *fault
	switch {
	case err == nil:
		return x.plain.b, nil
	case errors.Is(err, errUnknownCoding):
		f = badRequest("Content-Encoding %q is none of gzip, deflate, snappy, zstd", clip(name))
		f.status, f.reason = fasthttp.StatusUnsupportedMediaType, "encoding"
	case errors.Is(err, errTooLarge):
		f = x.tooLarge("the decompressed body", max)
	case errors.Is(err, errBusy):
		f = x.busy()
	default:
		f = refused(metric.Malformed, "the body is not what Content-Encoding says, %s: %q", coding, err.Error())
	}
	f.close = false // the body was read to its end
	return nil, f
}
