package operations

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxConnections bounds what a storm of connections can take, and maxConnectionsEach what one address can: both are far above what
// probes and scrapers need.
const (
	maxConnections     = 512
	maxConnectionsEach = 64
)

// crowd is a listener that never keeps a probe waiting: where there are as many connections as may be, from one address or in all, the
// one that needs its place the least is closed for the new one. So whoever opens many connections loses his own.
type crowd struct {
	net.Listener
	log    *slog.Logger
	closed prometheus.Counter

	mu         sync.Mutex // guards what follows
	open       map[net.Conn]*member
	from       map[netip.Prefix]int // open ones by address
	saidAt     time.Time
	suppressed int
}

// member is a connection that is open.
type member struct {
	from  netip.Prefix
	state http.ConnState
	since time.Time // when it came into this state
}

func newCrowd(listener net.Listener, log *slog.Logger) *crowd {
	return &crowd{
		Listener: listener, log: log,
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_operations_connections_closed_total",
			Help: "Connections to the operations port that were closed for a new one, for there were as many as may be, in all or from one address.",
		}),
		open: map[net.Conn]*member{}, from: map[netip.Prefix]int{},
	}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	gone, said := c.enter(conn)
	if gone != nil {
		c.closed.Inc()
		_ = gone.Close()
	}
	if said != nil { // without the lock: who logs may have to wait
		c.log.Warn("operations: a connection was closed for a new one, for there were as many as may be", said...)
	}
	return conn, nil
}

// enter takes a connection in, and returns the one that has to go for it, with what is to be said of that; nil: none, nothing.
func (c *crowd) enter(conn net.Conn) (gone net.Conn, said []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := prefixOf(conn.RemoteAddr())
	switch {
	case c.from[from] >= maxConnectionsEach:
		gone, said = c.makeRoomLocked(func(m *member) bool { return m.from == from })
	case len(c.open) >= maxConnections:
		gone, said = c.makeRoomLocked(func(*member) bool { return true })
	}
	c.open[conn] = &member{from, http.StateNew, time.Now()}
	c.from[from]++
	return gone, said
}

// makeRoomLocked forgets the connection that has been longest without a request, among those asked for; if all have one, the one whose
// request is the oldest: an answer takes a moment, a client that sends half a request or does not read takes longer.
func (c *crowd) makeRoomLocked(among func(*member) bool) (last net.Conn, said []any) {
	for conn, m := range c.open {
		if among(m) && (last == nil || m.before(c.open[last])) {
			last = conn
		}
	}
	said = c.sayLocked(last)
	c.forgetLocked(last)
	return last, said
}

func (m *member) before(other *member) bool {
	if busy, otherBusy := m.state == http.StateActive, other.state == http.StateActive; busy != otherBusy {
		return otherBusy
	}
	return m.since.Before(other.since)
}

// sayLocked lets one message a second pass and counts the others: they come at the clients' pace.
func (c *crowd) sayLocked(conn net.Conn) (said []any) {
	now := time.Now()
	if now.Sub(c.saidAt) < time.Second {
		c.suppressed++
		return nil
	}
	said = []any{"peer", conn.RemoteAddr().String(), "open", len(c.open), "may_be", maxConnections,
		"open_from_address", c.from[c.open[conn].from], "may_be_from_address", maxConnectionsEach, "suppressed", c.suppressed}
	c.saidAt, c.suppressed = now, 0
	return said
}

// changed is the server's ConnState.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.open[conn]
	switch {
	case m == nil: // it made room
	case state == http.StateClosed:
		c.forgetLocked(conn)
	default:
		m.state, m.since = state, time.Now()
	}
}

func (c *crowd) forgetLocked(conn net.Conn) {
	from := c.open[conn].from
	delete(c.open, conn)
	if c.from[from]--; c.from[from] == 0 {
		delete(c.from, from)
	}
}

// prefixOf is what counts as one address: an IPv6 host usually has a whole /64.
func prefixOf(remote net.Addr) netip.Prefix {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	address, bits := tcp.AddrPort().Addr().Unmap().WithZone(""), 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
