package connlimit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// Limits are the limits of one listener. For Max and MaxEach, 0 is no limit.
type Limits struct {
	// Max limits all open connections, MaxEach those of one address. The peers of a Unix socket
	// have no address: only Max limits them.
	Max, MaxEach int
	// Keep is how long a connection does not yield after it was marked busy, while its address keeps no more than its share of
	// Max. 0: a busy connection yields too, but only if no other of its address does.
	Keep time.Duration
	// Handshake bounds the first deadline of a connection, which is that of a TLS handshake for
	// net/http and for grpc, and with it the bytes to MaxHandshake. 0: no bound.
	Handshake time.Duration
	// WriteStall bounds each write: a connection whose client reads nothing for so long is closed. 0: no bound.
	WriteStall time.Duration
	// MaxReceived limits what is kept of what all connections have received: of headers that are not complete, of requests of
	// Streams that are open, and over grpc of all before Trust, beyond the first FreeReceived of each (0: 8 KiB). A connection
	// that would receive more is closed. 0: no limit.
	MaxReceived, FreeReceived int64
}

// Forever is a Keep for connections that no stranger can mark busy.
const Forever = time.Duration(math.MaxInt64)

// HandshakeTimeout is the time that every listener gives to a handshake.
const HandshakeTimeout = 2 * time.Second

// A Limiter knows the open connections of one listener. Its methods may be called by several
// goroutines at once.
type Limiter struct {
	counts
	limits Limits
	slots  *Slots
	start  time.Time

	received received

	mu     sync.Mutex // guards the fields below
	open   map[netip.Prefix]*address
	remote map[string]*Member       // by the peer's address and port
	owners fair.Shares[string, int] // of connections that ProveFor has proven
}

// use says what a connection has proven. Of one address, connections yield in this order.
type use int32

const (
	unproven use = iota // no request, no sample, no handshake with a certificate
	idle                // waits since its last request
	busy
)

// A Member is one open connection.
type Member struct {
	net.Conn
	From    netip.Prefix // the peer's address
	limiter *Limiter

	// Written by the goroutines that serve the connection, read by the one that accepts.
	use      atomic.Int32
	since    atomic.Int64 // when use was last set, after the limiter's start
	requests atomic.Int32 // in flight
	shaken   atomic.Bool  // Limits.Handshake is over

	// Guarded by limiter.mu.
	owner string
	owned bool
	of    *address // nil: the connection has left
	at    int      // its index there

	// Of Limiter.received: bytes that are kept, of which some are charged.
	bytes, charged int64
	gone           bool
	trusted        atomic.Bool
	framed         atomic.Bool // Streams counts
	silent         Silent
}

// New makes a Limiter without connections. The name is the listener's in metrics and in the log.
func New(name string, limits Limits, log *slog.Logger) *Limiter {
	return &Limiter{
		counts: newCounts(name, log), limits: limits, slots: NewSlots(limits.Max, limits.MaxEach), start: time.Now(),
		received: received{max: limits.MaxReceived, free: cmp.Or(limits.FreeReceived, freeReceived)},
		open:     map[netip.Prefix]*address{}, remote: map[string]*Member{},
	}
}

// Enter admits a connection. At a limit it closes the one that yields. If none does, the error wraps
// a *FullError, and the caller closes the new connection. Enter counts and logs both.
func (l *Limiter) Enter(conn net.Conn) (*Member, error) {
	entered, yielded, err := l.enter(conn)
	if err != nil || yielded != nil {
		l.note(conn, yielded, err)
	}
	if yielded != nil {
		yielded.abort()
		runtime.Gosched() // goroutines of connections that yielded end before more are accepted
	}
	return entered, err
}

// abort closes a connection at once. A net.Conn whose Close may wait has Abort as well.
func (m *Member) abort() {
	if layered, ok := m.Conn.(interface{ Abort() }); ok {
		layered.Abort()
		return
	}
	_ = m.Conn.Close()
}

// Reset closes a connection at once, and drops data that the peer has not taken: the kernel would keep megabytes of it for
// more than a minute.
func (m *Member) Reset() {
	if tcp, ok := m.Conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	m.abort()
}

// Reset resets the connection with a peer's address and port.
func (l *Limiter) Reset(remote string) {
	if m := l.of(remote); m != nil {
		m.Reset()
	}
}

// enter is Enter, but only frees the slot of the member that yields.
func (l *Limiter) enter(conn net.Conn) (entered, yielded *Member, err error) {
	remote := conn.RemoteAddr().String()
	m := &Member{Conn: conn, limiter: l, From: Prefix(remote)}
	m.mark(unproven)
	l.mu.Lock()
	defer l.mu.Unlock()
	var full *FullError
	if errors.As(l.slots.Acquire(m.From), &full) {
		if full.From.IsValid() {
			yielded = l.open[full.From].first(l.now(), false)
		} else {
			yielded = l.yieldingLocked(m.From)
		}
		if yielded == nil {
			return nil, nil, fmt.Errorf("connection %w; every open connection is in use or left to other addresses", full)
		}
		l.leaveLocked(yielded)
		_ = l.slots.Acquire(m.From) // cannot fail: the yielded slot is free, and only Enter acquires
	}
	if l.open[m.From] == nil {
		l.open[m.From] = &address{}
	}
	l.open[m.From].add(m)
	if m.From.IsValid() {
		l.remote[remote] = m
	}
	return m, yielded, nil
}

func (l *Limiter) now() int64 { return int64(time.Since(l.start)) }

// Busy marks the connection as in use: a request arrived, a sample was applied.
func (m *Member) Busy() { m.mark(busy) }

// Idle marks the connection as waiting from now on, unless a request of it is served.
func (m *Member) Idle() {
	if m.requests.Load() == 0 {
		m.mark(idle)
	}
}

// Begin marks the connection as in use by one more request, of several at once, until End.
func (m *Member) Begin() {
	m.requests.Add(1)
	m.Busy()
}

// End is the end of a request that began.
func (m *Member) End() {
	if m.requests.Add(-1) == 0 {
		m.Idle()
	}
}

func (m *Member) mark(as use) {
	m.use.Store(int32(as))
	m.since.Store(m.limiter.now())
}

// Prove marks the connection with a peer's address and port as busy, until it ends.
func (l *Limiter) Prove(remote string) {
	if m := l.of(remote); m != nil && use(m.use.Load()) != busy {
		m.Busy()
	}
}

// ProveFor is Prove for one of the owners whose requests come from one address. A connection counts as that of the owner
// who proved it first. It returns false where that owner has three times as many as are left of MaxEach: the connection
// is not proven then.
func (l *Limiter) ProveFor(remote, owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.remote[remote]
	switch {
	case m == nil || m.owned:
		return true
	case l.owners.More(owner, l.limits.MaxEach) < 1:
		return false
	}
	m.owner, m.owned = owner, true
	l.owners.Add(owner, 1)
	m.Busy()
	return true
}

// Owned is how many open connections count as those of an owner.
func (l *Limiter) Owned(owner string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owners.Of(owner)
}

// Requests marks a connection as busy while handler serves a request of it. A connection of which
// no whole header has arrived stays unproven.
func (l *Limiter) Requests(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := l.of(r.RemoteAddr); m != nil {
			m.Begin()
			defer m.End()
			l.received.begin(m)
		}
		handler.ServeHTTP(w, r)
	})
}

func (l *Limiter) of(remote string) *Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remote[remote]
}

// SetReadDeadline implements net.Conn.
func (m *Member) SetReadDeadline(t time.Time) error { return m.Conn.SetReadDeadline(m.shake(t)) }

// SetDeadline implements net.Conn.
func (m *Member) SetDeadline(t time.Time) error { return m.Conn.SetDeadline(m.shake(t)) }

// shake bounds a deadline until the handshake is over: net/http and grpc then lift the deadline.
func (m *Member) shake(t time.Time) time.Time {
	if m.limiter.limits.Handshake == 0 || m.shaken.Load() {
		return t
	}
	if t.IsZero() {
		m.shaken.Store(true)
		return t
	}
	if most := time.Now().Add(m.limiter.limits.Handshake); t.After(most) {
		return most
	}
	return t
}

// Write implements net.Conn. It ends a connection whose client reads nothing: grpc, which sets no deadline, keeps the streams that
// have ended until the client has read that, and does not look for the fault of a write.
func (m *Member) Write(b []byte) (int, error) {
	stall := m.limiter.limits.WriteStall
	if stall == 0 {
		return m.Conn.Write(b)
	}
	_ = m.Conn.SetWriteDeadline(time.Now().Add(stall))
	n, err := m.Conn.Write(b)
	if err != nil {
		m.Reset()
	}
	return n, err
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
	if m.of == nil {
		return
	}
	if m.of.remove(m); len(l.open[m.From].members) == 0 {
		delete(l.open, m.From)
	}
	l.received.leave(m)
	l.slots.Release(m.From)
	if m.owned {
		l.owners.Add(m.owner, -1)
	}
	if remote := m.RemoteAddr().String(); l.remote[remote] == m {
		delete(l.remote, remote)
	}
}

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
	for _, of := range l.open {
		for _, m := range of.members {
			do(m.Conn)
		}
	}
}

// A Listener accepts connections within the limits of a Limiter. Accept returns Members.
type Listener struct {
	net.Listener
	*Limiter
}

// ListenConfig gives each connection of a listener a buffer of the kernel for what nobody has read yet, of twice so many
// bytes. 0: the system's default, which grows to megabytes. The memory limit of a cgroup includes it.
func ListenConfig(receiveBuffer int) (config net.ListenConfig) {
	if receiveBuffer == 0 {
		return config
	}
	config.Control = func(_, _ string, raw syscall.RawConn) (err error) { // set before listening: accepted connections inherit it
		controlErr := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer)
		})
		return errors.Join(controlErr, err)
	}
	return config
}

// Listen binds the TCP address of a configuration's field Address, with the limits. name is the Limiter's.
func Listen(address, name string, limits Limits, logger *slog.Logger) (*Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is in use by another process; stop that process or choose another Address (%w)",
			address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on Address: %w", err)
	}
	return &Listener{Listener: listener, Limiter: New(name, limits, logger)}, nil
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		entered, err := l.Enter(conn)
		if err == nil {
			return entered, nil
		}
		_ = conn.Close()
	}
}
