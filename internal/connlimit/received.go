package connlimit

import (
	"errors"
	"net/netip"
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
const freeReceived = 32 << 10

// forgiven is how long received bytes count on a connection to which answers are written: a client that watches keeps
// sending acknowledgements of HTTP/2.
const forgiven = time.Minute

var errReceivedTooMuch = errors.New("the connections of this address have received too much of requests that have not begun")

// add counts bytes of a member, and reports whether it may have received them.
func (r *received) add(m *Member, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// forget begins anew for a member: a request of it has begun, or it is gone.
func (r *received) forget(m *Member, gone bool) {
	if r.max == 0 { // each request of a port without the limit comes here
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(m, gone)
}

// answer is forget for a member that is answered, if its bytes are old.
func (r *received) answer(m *Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.bytes > 0 && time.Since(m.first) > forgiven {
		r.forgetLocked(m, false)
	}
}

func (r *received) forgetLocked(m *Member, gone bool) {
	if m.charged > 0 {
		r.of.Add(m.From, -m.charged)
	}
	m.bytes, m.charged, m.gone = 0, 0, m.gone || gone
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
		m.limiter.received.answer(m)
	}
	return m.Conn.Write(b)
}
