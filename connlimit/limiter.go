package connlimit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Limits are the limits of one listener. For Max and MaxEach, 0 is no limit.
type Limits struct {
	// Max limits all open connections, MaxEach those of one address. The peers of a Unix socket
	// have no address: only Max limits them.
	Max, MaxEach int
	// Reject closes the new connection at a limit. Otherwise an open one yields to it.
	Reject bool
	// Keep is how long a connection cannot yield after it was marked busy. 0: a busy connection
	// yields too, but only if none is idle.
	Keep time.Duration
}

// A Limiter knows the open connections of one listener. Its methods may be called by several
// goroutines at once.
type Limiter struct {
	limits Limits
	slots  *Slots
	start  time.Time

	mu   sync.Mutex // guards open
	open map[*Member]struct{}
}

// A Member is one open connection.
type Member struct {
	net.Conn
	From    netip.Prefix // the peer's address
	limiter *Limiter

	// Written by the goroutine that serves the connection, read by the one that accepts.
	busy  atomic.Bool
	since atomic.Int64 // when busy was last set, after the limiter's start
}

// New makes a Limiter without connections.
func New(limits Limits) *Limiter {
	return &Limiter{
		limits: limits, slots: NewSlots(limits.Max, limits.MaxEach), start: time.Now(), open: map[*Member]struct{}{},
	}
}

// Enter admits a connection. At a limit, yielded is the member that loses its slot; the caller
// closes it. If no member yields, the error wraps a *FullError, and the caller closes the new
// connection.
func (l *Limiter) Enter(conn net.Conn) (entered, yielded *Member, err error) {
	m := &Member{Conn: conn, limiter: l, From: Prefix(conn.RemoteAddr().String())}
	m.Idle()
	l.mu.Lock()
	defer l.mu.Unlock()
	var full *FullError
	if errors.As(l.slots.Acquire(m.From), &full) {
		if yielded = l.idlestLocked(full.From); yielded == nil {
			return nil, nil, fmt.Errorf("connection %w; no open connection is idle", full)
		}
		l.leaveLocked(yielded)
		_ = l.slots.Acquire(m.From) // cannot fail: the yielded slot is free, and only Enter acquires
	}
	l.open[m] = struct{}{}
	return m, yielded, nil
}

// idlestLocked returns the member that yields, among those of an address or, for the zero prefix,
// among all. Nil: none does.
func (l *Limiter) idlestLocked(from netip.Prefix) (idlest *Member) {
	if l.limits.Reject {
		return nil
	}
	now := l.now()
	for m := range l.open {
		if from.IsValid() && m.From != from || m.keeps(now) {
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

// before reports whether m yields rather than other.
func (m *Member) before(other *Member) bool {
	if m.limiter.limits.Keep == 0 {
		if busy := m.busy.Load(); busy != other.busy.Load() {
			return !busy
		}
	}
	return m.since.Load() < other.since.Load()
}

func (l *Limiter) now() int64 { return int64(time.Since(l.start)) }

// Busy marks the connection as in use: a request arrived, a sample was applied.
func (m *Member) Busy() { m.mark(true) }

// Idle marks the connection as waiting from now on.
func (m *Member) Idle() { m.mark(false) }

func (m *Member) mark(busy bool) {
	m.busy.Store(busy)
	m.since.Store(m.limiter.now())
}

// Close closes the connection and frees its slot.
func (m *Member) Close() error {
	err := m.Conn.Close()
	m.Leave()
	return err
}

// CloseWrite lets net/http close its side of a TCP connection first, so that the client still reads
// the answer.
func (m *Member) CloseWrite() error {
	if half, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Leave frees the connection's slot. Further calls, and calls after the connection yielded, do
// nothing.
func (m *Member) Leave() {
	m.limiter.mu.Lock()
	defer m.limiter.mu.Unlock()
	m.limiter.leaveLocked(m)
}

func (l *Limiter) leaveLocked(m *Member) {
	if _, open := l.open[m]; open {
		delete(l.open, m)
		l.slots.Release(m.From)
	}
}

// Open returns how many connections are open, in all and from the member's address.
func (m *Member) Open() (all, fromAddress int) { return m.limiter.slots.Taken(m.From) }

// Len returns how many connections are open.
func (l *Limiter) Len() int {
	all, _ := l.slots.Taken(netip.Prefix{})
	return all
}

// Each calls do with every connection that entered and did not leave, as it was given to Enter. do
// must neither block nor call the limiter.
func (l *Limiter) Each(do func(net.Conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range l.open {
		do(m.Conn)
	}
}
