package connlimit

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Limits are the bounds of one listener.
type Limits struct {
	// Max bounds all open connections, MaxEach those of one address. A Unix socket's peers have no address: only Max
	// bounds them.
	Max, MaxEach int
	// Keep is how long a connection keeps its place after it was marked busy. 0: a busy connection yields too, but
	// only when no idle one is left.
	Keep time.Duration
}

// A Limiter knows the open connections of one listener. All its methods may be called by several goroutines at once.
type Limiter struct {
	limits Limits
	start  time.Time

	mu   sync.Mutex // guards what follows
	open map[*Member]struct{}
	from map[netip.Prefix]int // open connections by address
}

// A Member is one open connection.
type Member struct {
	net.Conn
	limiter *Limiter
	from    netip.Prefix

	// The goroutine that serves the connection writes these, the one that makes room reads them.
	busy  atomic.Bool
	since atomic.Int64 // when busy was last set, after the limiter's start
}

// New makes a Limiter without connections.
func New(limits Limits) *Limiter {
	return &Limiter{limits: limits, start: time.Now(), open: map[*Member]struct{}{}, from: map[netip.Prefix]int{}}
}

// Enter admits a connection. If the limiter is full, yielded is the member that lost its place, which the caller
// closes. If no member yields, the error says why the connection must be closed instead.
func (l *Limiter) Enter(conn net.Conn) (entered, yielded *Member, err error) {
	m := &Member{Conn: conn, limiter: l, from: AddressPrefix(conn.RemoteAddr())}
	m.Idle()
	l.mu.Lock()
	defer l.mu.Unlock()
	if full := l.fullLocked(m.from); full != nil {
		if yielded = l.idlestLocked(full.from); yielded == nil {
			return nil, nil, full
		}
		l.leaveLocked(yielded)
	}
	l.open[m] = struct{}{}
	l.from[m.from]++
	return m, yielded, nil
}

// fullError says which bound was reached.
type fullError struct {
	from netip.Prefix // zero: all connections together
	max  int
}

func (e *fullError) Error() string {
	if e.from.IsValid() {
		return fmt.Sprintf("%d connections are open from %s, which is the limit, and none of them is idle", e.max, e.from)
	}
	return fmt.Sprintf("%d connections are open, which is the limit, and none of them is idle", e.max)
}

func (l *Limiter) fullLocked(from netip.Prefix) *fullError {
	switch {
	case from.IsValid() && l.from[from] >= l.limits.MaxEach:
		return &fullError{from, l.limits.MaxEach}
	case len(l.open) >= l.limits.Max:
		return &fullError{netip.Prefix{}, l.limits.Max}
	}
	return nil
}

// idlestLocked is the member that yields, among those of an address or, for the zero prefix, among all. Nil: none does.
func (l *Limiter) idlestLocked(from netip.Prefix) (idlest *Member) {
	now := l.now()
	for m := range l.open {
		if from.IsValid() && m.from != from || m.keeps(now) {
			continue
		}
		if idlest == nil || m.before(idlest) {
			idlest = m
		}
	}
	return idlest
}

func (m *Member) keeps(now int64) bool {
	keep := m.limiter.limits.Keep
	return keep > 0 && m.busy.Load() && now-m.since.Load() < int64(keep)
}

// before says that m yields rather than other.
func (m *Member) before(other *Member) bool {
	if m.limiter.limits.Keep == 0 {
		if busy := m.busy.Load(); busy != other.busy.Load() {
			return !busy
		}
	}
	return m.since.Load() < other.since.Load()
}

func (l *Limiter) now() int64 { return int64(time.Since(l.start)) }

// Busy marks that the connection is of use now: a request came, a sample was applied.
func (m *Member) Busy() { m.mark(true) }

// Idle marks that the connection begins to wait.
func (m *Member) Idle() { m.mark(false) }

func (m *Member) mark(busy bool) {
	m.busy.Store(busy)
	m.since.Store(m.limiter.now())
}

// CloseWrite lets net/http end its side of a TCP connection first, so that the client still reads the answer.
func (m *Member) CloseWrite() error {
	if half, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Leave frees the connection's place. It may be called again, and after the connection yielded.
func (m *Member) Leave() {
	m.limiter.mu.Lock()
	defer m.limiter.mu.Unlock()
	m.limiter.leaveLocked(m)
}

func (l *Limiter) leaveLocked(m *Member) {
	if _, open := l.open[m]; !open {
		return
	}
	delete(l.open, m)
	if l.from[m.from]--; l.from[m.from] == 0 {
		delete(l.from, m.from)
	}
}

// Open is how many connections are open, and how many of them share the member's address.
func (m *Member) Open() (all, fromAddress int) {
	m.limiter.mu.Lock()
	defer m.limiter.mu.Unlock()
	return len(m.limiter.open), m.limiter.from[m.from]
}

// Len is how many connections are open.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Each calls do with every open connection. do must neither block nor call the limiter.
func (l *Limiter) Each(do func(net.Conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range l.open {
		do(m.Conn)
	}
}
