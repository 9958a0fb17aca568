package push

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/connlimit"
	"github.com/sluice-metrics/sluice/ratelog"
	"github.com/sluice-metrics/sluice/receiver"
)

// gate is the listening socket. It holds the caps on connections (fasthttp's own cap per address counts
// IPv4 only, and both of its refusals are plain text) and outlives what fasthttp takes for the socket's
// death: too many open files, a connection that was reset before it was accepted.
type gate struct {
	*net.TCPListener
	limiter     *connlimit.Limiter
	metrics     *metrics
	log         *slog.Logger
	tls         *tls.Config // nil: plain HTTP
	readTimeout time.Duration
	mistaken    ratelog.Limiter // what is said of clients that speak TLS to a plain port, or the reverse
	closed      chan struct{}
	closeOnce   sync.Once
}

func newGate(ln *net.TCPListener, cfg Config, m *metrics, log *slog.Logger) *gate {
	return &gate{
		TCPListener: ln, metrics: m, log: log, readTimeout: cfg.ReadTimeout, closed: make(chan struct{}),
		limiter: connlimit.New(connlimit.Limits{Max: cfg.MaxConnections, MaxEach: cfg.MaxConnsPerIP, Reject: true}),
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
	c := &conn{Conn: tcp, tcp: tcp, gate: g, remote: receiver.RemoteAddress(tcp.RemoteAddr())}
	member, _, err := g.limiter.Enter(c)
	if err == nil {
		c.member = member
		if g.tls != nil {
			c.tls = tls.Server(tcp, g.tls)
			c.Conn = c.tls
		}
		return c
	}
	answer := fullAnswer
	if full := new(connlimit.FullError); errors.As(err, &full) && full.From.IsValid() {
		answer = fullIPAnswer
	}
	g.metrics.refusedConnections.Add(1)
	if g.tls == nil { // to a client that speaks TLS it would be noise
		// A few hundred bytes into the empty buffer of a new socket: this does not block.
		_ = tcp.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(tcp, answer)
	}
	_ = tcp.Close()
	return nil
}

// connections returns how many connections are open.
func (g *gate) connections() int { return g.limiter.Len() }

// abort closes every connection, busy or not, and returns how many there were.
func (g *gate) abort() (closed int) {
	g.limiter.Each(func(open net.Conn) {
		_ = open.(*conn).tcp.Close()
		closed++
	})
	return closed
}

// abortSilent closes the connections that never said anything: fasthttp takes them for requests in flight.
func (g *gate) abortSilent() {
	g.limiter.Each(func(open net.Conn) {
		if c := open.(*conn); !c.heard.Load() {
			_ = c.tcp.Close()
		}
	})
}

// conn is one connection. Only the goroutine that serves it reads, and only it looks at ended and certificate.
type conn struct {
	net.Conn // what is read and written: tcp, or TLS over it
	tcp      *net.TCPConn
	tls      *tls.Conn   // nil: plain HTTP
	shaken   atomic.Bool // the handshake is done
	// certificate is the client's, verified; nil: it showed none.
	certificate *x509.Certificate

	gate   *gate
	member *connlimit.Member
	remote netip.Addr
	ended  bool        // the client has closed its side
	linger atomic.Bool // the client may still be sending when we close
	closed atomic.Bool
	heard  atomic.Bool // a byte came
}

// Read notes the client's end of stream: fasthttp takes a chunked body that was cut off for a whole one.
func (c *conn) Read(b []byte) (int, error) {
	if c.tls != nil && !c.shaken.Load() && c.shake() != nil {
		return 0, io.EOF // it is said, and counted
	}
	n, err := c.Conn.Read(b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		c.ended = true
	}
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
		if c.tls == nil && b[0] == tlsHandshake {
			c.refuse("push: a client speaks TLS, but this port is plain HTTP: it must say http://, not https://", plainAnswer)
			return 0, io.EOF
		}
	}
	return n, err
}

// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1). No method begins with it.
const tlsHandshake = 22

// refuse tells the log and, in plain text, the client that it mistook the port. One that speaks TLS does not expect that: what
// it makes of it, "wrong version number" or "not a TLS handshake", says more than a connection that closes.
func (c *conn) refuse(message, answer string) {
	if suppressed, ok := c.gate.mistaken.Allow(); ok {
		c.gate.log.Warn(message, "peer", c.RemoteAddr().String(), "suppressed", suppressed)
	}
	c.linger.Store(true)
	_ = c.tcp.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c.tcp, answer)
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
	defer c.member.Leave()
	if c.linger.Load() {
		if c.shaken.Load() {
			_ = c.tls.SetWriteDeadline(time.Now().Add(time.Second))
			_ = c.tls.CloseWrite()
		}
		_ = c.tcp.CloseWrite()
		_ = c.tcp.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, readerOnly{c.tcp}, lingerBytes)
	}
	return c.Conn.Close()
}

// readerOnly hides splice and the like from io.Copy.
type readerOnly struct{ io.Reader }
