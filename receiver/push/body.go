package push

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// freeBytes of each body are not charged to the budget.
const freeBytes = 64 << 10

// budget bounds what the bodies of all requests hold together. Nobody waits for it: what does not fit is
// refused, and the client comes again.
type budget struct {
	max  int64
	held atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.held.Add(n) <= b.max {
		return true
	}
	b.held.Add(-n)
	return false
}

// buffer is a body in memory. It grows with what arrived, never with what was announced, and charges what
// it holds beyond freeBytes.
type buffer struct {
	b       []byte
	charged int64
}

// grow makes room for at least one more byte, up to max.
func (u *buffer) grow(budget *budget, max int) bool {
	size := min(2*cap(u.b), max)
	if size < 512 {
		size = min(512, max)
	}
	if more := int64(size) - freeBytes - u.charged; more > 0 {
		if !budget.take(more) {
			return false
		}
		u.charged += more
	}
	bigger := make([]byte, len(u.b), size)
	copy(bigger, u.b)
	u.b = bigger
	return true
}

// reserve makes room for n bytes at once.
func (u *buffer) reserve(budget *budget, n int) bool {
	if n <= cap(u.b) {
		return true
	}
	if more := int64(n) - freeBytes - u.charged; more > 0 {
		if !budget.take(more) {
			return false
		}
		u.charged += more
	}
	u.b = make([]byte, 0, n)
	return true
}

// release gives the charge back, and the memory too if it is more than a pool should keep.
func (u *buffer) release(budget *budget) {
	budget.held.Add(-u.charged)
	u.charged = 0
	if cap(u.b) > freeBytes {
		u.b = nil
	}
	u.b = u.b[:0]
}

var (
	errTooLarge = errors.New("too large")
	errBusy     = errors.New("too many bytes in flight")
)

// fill reads r to its end. One byte more than max is errTooLarge.
func (u *buffer) fill(r io.Reader, budget *budget, max int) error {
	u.b = u.b[:0]
	for {
		if len(u.b) == cap(u.b) && !u.grow(budget, max+1) {
			return errBusy
		}
		n, err := r.Read(u.b[len(u.b):cap(u.b)])
		u.b = u.b[:len(u.b)+n]
		switch {
		case len(u.b) > max:
			return errTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

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
	x.server.account.AddPackets(1, uint64(len(x.wire.b)))
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
