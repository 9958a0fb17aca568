package connlimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// received bounds what is kept of what connections have received: headers that are not complete, over HTTP/2 all of
// requests that are open (Streams), and over grpc all until the connection is trusted. Of all addresses, one has at most three times what is left.
type received struct {
	max, free int64

	mu sync.Mutex // guards the rest, and the members' fields
	of fair.Shares[netip.Prefix, int64]
}

// freeReceived bytes of each connection are not charged, unless Limits say otherwise: the headers of almost every request, or
// of several of HTTP/2.
const freeReceived = 8 << 10

var errReceivedTooMuch = errors.New("the connections of this address have received too much of requests that have not begun")

// hold counts bytes of a member that are kept, and reports whether it may have received them.
func (r *received) hold(m *Member, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.trusted.Load() {
		return true
	}
	m.bytes += int64(n)
	more := m.bytes - r.free - m.charged
	if more <= 0 {
		return true
	}
	if m.gone || more > r.of.More(m.From, r.max) {
		return false
	}
	r.of.Add(m.From, more)
	m.charged += more
	return true
}

// read is hold for bytes that were read from the network, in a handshake or over HTTP/1. Those of HTTP/2 are the Streams'.
func (r *received) read(m *Member, n int) bool {
	switch shaken := m.limiter.limits.Handshake == 0 || m.shaken.Load(); {
	case !shaken || m.framed.Load():
		return m.silent.Received(n, shaken)
	case r.max == 0 || m.trusted.Load():
		return true
	}
	return r.hold(m, n)
}

// release gives bytes back.
func (r *received) release(m *Member, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked(m, int64(n))
}

// begin gives back the bytes of a request over HTTP/1 that has begun: almost all before its handler are of it.
func (r *received) begin(m *Member) {
	if r.max == 0 || m.framed.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked(m, m.bytes)
}

// Trust takes the limit from the connection with a peer's address and port: its client is known, and sends whole requests.
func (l *Limiter) Trust(remote string) {
	if m := l.of(remote); m != nil {
		m.Trust()
	}
}

// Trust is Limiter.Trust of one connection.
func (m *Member) Trust() {
	r := &m.limiter.received
	r.mu.Lock()
	defer r.mu.Unlock()
	if !m.trusted.Swap(true) {
		r.releaseLocked(m, m.bytes)
	}
}

// leave gives back all of a member that is gone, and lets it receive no more.
func (r *received) leave(m *Member) {
	if r.max == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked(m, m.bytes)
	m.gone = true
}

func (r *received) releaseLocked(m *Member, n int64) {
	m.bytes -= min(n, m.bytes)
	if less := m.charged - max(m.bytes-r.free, 0); less > 0 {
		r.of.Add(m.From, -less)
		m.charged -= less
	}
}

// HeaderMemory estimates the memory of a request's target and headers. On the wire, a header of HTTP/2 may have a byte.
func HeaderMemory(r *http.Request) int {
	const eachKey, eachValue = 120, 40 // of the map and its slices
	n := len(r.Method) + len(r.Host) + len(r.RequestURI) + eachKey*len(r.Trailer)
	for key, values := range r.Header {
		n += eachKey + len(key)
		for _, value := range values {
			n += eachValue + len(value)
		}
	}
	return n
}

// BoundHeaders refuses requests whose target and headers take more than most, and drops those of others once they are answered.
func BoundHeaders(most int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer DropHeaders(r)
		if n := HeaderMemory(r); n > most {
			http.Error(w, fmt.Sprintf("the target and the headers of the request take %d bytes; must be at most %d", n, most),
				http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// DropHeaders drops a request's target and headers at the end of its handler: net/http keeps them until the body has ended or,
// over HTTP/2, the answer is read. It leaves what the library still asks: whether the method is HEAD.
func DropHeaders(r *http.Request) {
	if r.Method != http.MethodHead {
		r.Method = ""
	}
	r.Header, r.Trailer, r.Host, r.RequestURI, r.URL = nil, nil, "", "", new(url.URL)
}

// Read implements net.Conn.
func (m *Member) Read(b []byte) (int, error) {
	if m.framed.Load() {
		b = b[:min(len(b), ReadAtOnce)]
	}
	n, err := m.Conn.Read(b)
	if n > 0 && !m.limiter.received.read(m, n) {
		_ = m.Conn.Close()
		return 0, errReceivedTooMuch
	}
	return n, err
}
