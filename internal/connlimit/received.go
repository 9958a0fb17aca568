package connlimit

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// received bounds what connections have received of requests that have not begun: of headers, which a library keeps
// until they are complete. Of all addresses, one has at most three times what is left.
type received struct {
	max int64

	mu sync.Mutex // guards the rest, and the members' fields
	of fair.Shares[netip.Prefix, int64]
}

// freeReceived bytes of each connection are not counted: a handshake, and the headers of almost every request.
const freeReceived = 12 << 10

// A connection's received bytes are forgiven when a request begins, as many as it may have had, and to a client that
// watches or reads a long answer: it acknowledges a hundredth of what is written (HTTP/2), and pings twice a minute.
const (
	writtenEach = 16      // bytes written, for one that is forgiven
	pingsEach   = 1 << 10 // bytes forgiven each minute, with the next write
)

var errReceivedTooMuch = errors.New("the connections of this address have received too much of requests that have not begun")

// add counts bytes of a member, and reports whether it may have received them.
func (r *received) add(m *Member, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.trusted {
		return true
	}
	if m.bytes == 0 {
		m.first = time.Now()
	}
	m.bytes += int64(n)
	more := m.bytes - freeReceived - m.charged
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

// begin forgives a member the bytes of a request of it that has begun. Those that came after it may be of headers that
// never end.
func (r *received) begin(m *Member, request *http.Request) {
	if r.max == 0 { // each request of a port without the limit comes here
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgiveLocked(m, int64(HeaderMemory(request)))
}

// Trust takes the limit from the connection with a peer's address and port: its client is known, and sends whole requests.
func (l *Limiter) Trust(remote string) {
	m := l.of(remote)
	if m == nil {
		return
	}
	l.received.mu.Lock()
	defer l.received.mu.Unlock()
	if !m.trusted {
		l.received.forgiveLocked(m, m.bytes)
		m.trusted = true
	}
}

// answer forgives a member acknowledgements of what is written to it, and pings.
func (r *received) answer(m *Member, written int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(written) / writtenEach
	if pings := time.Since(m.first) / (time.Minute / pingsEach); m.bytes > 0 && pings > 0 {
		n += int64(pings)
		m.first = time.Now()
	}
	r.forgiveLocked(m, n)
}

// leave forgives a member that is gone all, and lets it receive no more.
func (r *received) leave(m *Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgiveLocked(m, m.bytes)
	m.gone = true
}

func (r *received) forgiveLocked(m *Member, n int64) {
	m.bytes -= min(n, m.bytes)
	if less := m.charged - max(m.bytes-freeReceived, 0); less > 0 {
		r.of.Add(m.From, -less)
		m.charged -= less
	}
}

// HeaderMemory estimates the memory of a request's target and headers. On the wire, a header of HTTP/2 may have a byte.
func HeaderMemory(r *http.Request) int {
	const eachKey, eachValue = 120, 40 // of the map and its slices
	n := len(r.Method) + len(r.Host) + len(r.RequestURI)
	for key, values := range r.Header {
		n += eachKey + len(key)
		for _, value := range values {
			n += eachValue + len(value)
		}
	}
	return n
}

// DropHeaders drops a request's target and headers at the end of its handler: over HTTP/2, the library keeps them until the
// answer is read. It leaves what the library still asks: whether the method is HEAD.
func DropHeaders(r *http.Request) {
	if r.Method != http.MethodHead {
		r.Method = ""
	}
	r.Header, r.Host, r.RequestURI, r.URL = nil, "", "", new(url.URL)
}

// Read implements net.Conn.
func (m *Member) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if m.limiter.limits.MaxReceived > 0 && n > 0 && !m.limiter.received.add(m, n) {
		_ = m.Conn.Close()
		return 0, errReceivedTooMuch
	}
	return n, err
}

// Write implements net.Conn.
func (m *Member) Write(b []byte) (int, error) {
	if m.limiter.limits.MaxReceived > 0 {
		m.limiter.received.answer(m, len(b))
	}
	return m.Conn.Write(b)
}
