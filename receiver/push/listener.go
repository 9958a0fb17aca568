package push

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/receiver"
)

// gate is the listening socket. It holds the caps on connections (fasthttp's own cap per address counts
// IPv4 only, and both of its refusals are plain text) and outlives what fasthttp takes for the socket's
// death: too many open files, a connection that was reset before it was accepted.
type gate struct {
	*net.TCPListener
	max, maxPerIP int
	metrics       *metrics
	log           *slog.Logger
	encrypted     sparse // what is said of clients that speak TLS
	closed        chan struct{}
	closeOnce     sync.Once

	mu    sync.Mutex // guards open and perIP
	open  map[*conn]struct{}
	perIP map[netip.Prefix]int
}

func newGate(ln *net.TCPListener, cfg Config, m *metrics, log *slog.Logger) *gate {
	return &gate{
		TCPListener: ln, max: cfg.MaxConnections, maxPerIP: cfg.MaxConnsPerIP, metrics: m, log: log,
		closed: make(chan struct{}), open: map[*conn]struct{}{}, perIP: map[netip.Prefix]int{},
	}
}

// Accept returns the next connection within the caps, and io.EOF once the gate is closed.
func (g *gate) Accept() (net.Conn, error) {
	for backoff := time.Duration(0); ; {
		tcp, err := g.AcceptTCP()
		switch {
		case err == nil:
			backoff = 0
			if c := g.admit(tcp); c != nil {
				return c, nil
			}
		case errors.Is(err, net.ErrClosed):
			return nil, io.EOF
		default:
			g.metrics.acceptErrors.Add(1)
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(backoff):
			case <-g.closed:
			}
		}
	}
}

// Close stops accepting; connections that are open stay so. fasthttp closes what we have closed before it: a second
// time is no fault.
func (g *gate) Close() (err error) {
	g.closeOnce.Do(func() {
		close(g.closed)
		err = g.TCPListener.Close()
	})
	return err
}

func (g *gate) admit(tcp *net.TCPConn) net.Conn {
	c := &conn{TCPConn: tcp, gate: g, from: receiver.AddressPrefix(tcp.RemoteAddr()), remote: receiver.RemoteAddress(tcp.RemoteAddr())}
	g.mu.Lock()
	answer := ""
	switch {
	case len(g.open) >= g.max:
		answer = fullAnswer
	case g.maxPerIP > 0 && g.perIP[c.from] >= g.maxPerIP:
		answer = fullIPAnswer
	default:
		g.open[c] = struct{}{}
		g.perIP[c.from]++
	}
	g.mu.Unlock()
	if answer == "" {
		return c
	}
	g.metrics.refusedConnections.Add(1)
	// A few hundred bytes into the empty buffer of a new socket: this does not block.
	_ = tcp.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(tcp, answer)
	_ = tcp.Close()
	return nil
}

func (g *gate) forget(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
	if g.perIP[c.from]--; g.perIP[c.from] <= 0 {
		delete(g.perIP, c.from)
	}
}

// connections is how many are open.
func (g *gate) connections() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// abort closes every connection, whatever it is doing, and returns how many there were.
func (g *gate) abort() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open {
		_ = c.TCPConn.Close()
	}
	return len(g.open)
}

// abortSilent closes the connections that never said anything: fasthttp takes them for requests in flight.
func (g *gate) abortSilent() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open {
		if !c.heard.Load() {
			_ = c.TCPConn.Close()
		}
	}
}

// conn is one connection. Only the goroutine that serves it reads, and only it looks at ended.
type conn struct {
	*net.TCPConn
	gate   *gate
	from   netip.Prefix
	remote netip.Addr
	ended  bool        // the client has closed its side
	linger atomic.Bool // the client may still be sending when we close
	closed atomic.Bool
	heard  atomic.Bool // a byte came
}

// Read notes the client's end of stream: fasthttp takes a chunked body that was cut off for a whole one.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if err == io.EOF {
		c.ended = true
	}
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
		if b[0] == tlsHandshake {
			c.refuseTLS()
			return 0, io.EOF
		}
	}
	return n, err
}

// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1). No method begins with it.
const tlsHandshake = 22

// refuseTLS tells the log and, in the plain text that it did not expect, the client: what it makes of that,
// "wrong version number" or "not a TLS handshake", says more than a connection that closes.
func (c *conn) refuseTLS() {
	if suppressed, ok := c.gate.encrypted.pass(); ok {
		c.gate.log.Warn("push: a client speaks TLS, but this port is plain HTTP: it must say http://, not https://",
			"peer", c.RemoteAddr().String(), "suppressed", suppressed)
	}
	c.linger.Store(true)
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c.TCPConn, plainAnswer)
}

// What a client may still send to a connection whose answer is out. Closing a socket with unread bytes
// resets it, and the client may lose the answer that told it why.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.gate.forget(c)
	if c.linger.Load() {
		_ = c.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, readerOnly{c.TCPConn}, lingerBytes)
	}
	return c.TCPConn.Close()
}

// readerOnly hides splice and the like from io.Copy.
type readerOnly struct{ io.Reader }
