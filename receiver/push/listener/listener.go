package listener

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/receiver"
)

// Listener is the listening socket. It limits connections itself, because fasthttp's limit per
// address counts IPv4 only and its answers at both limits are plain text. It also survives errors
// that end fasthttp: too many open files, a connection reset before it was accepted.
type Listener struct {
	net.Listener
	Limiter     *connlimit.Limiter
	Counts      Counts
	log         *slog.Logger
	tls         *tls.Config // nil: plain HTTP
	readTimeout time.Duration
	mistaken    ratelog.Limiter // clients that speak TLS to a plain port, or the reverse
	closed      chan struct{}
	closeOnce   sync.Once
}

// Counts are the counters of the listener for Prometheus.
type Counts struct {
	AcceptErrors    atomic.Uint64
	HandshakeErrors atomic.Uint64
}

// socket is a connection of which one side can be closed alone, such as *net.TCPConn.
type socket interface {
	net.Conn
	CloseWrite() error
}

// Options are what a Listener is made of.
type Options struct {
	Name   string // in metrics and in the log
	Limits connlimit.Limits
	// Certificates is nil without TLS.
	Certificates *Certificates
	// Protocols are those that TLS offers (ALPN); none: HTTP/1.1, as clients take it.
	Protocols []string
	// ReadTimeout bounds a TLS handshake.
	ReadTimeout time.Duration
	Log         *slog.Logger
}

// New makes the listener. The connections of ln must have CloseWrite.
func New(ln net.Listener, o Options) *Listener {
	l := &Listener{
		Listener: ln, log: o.Log, readTimeout: o.ReadTimeout, closed: make(chan struct{}),
		Limiter: connlimit.New(o.Name, o.Limits, o.Log),
	}
	if o.Certificates != nil {
		l.tls = o.Certificates.server(o.Protocols)
	}
	return l
}

// Accept returns the next connection within the limits, and io.EOF once the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for backoff := time.Duration(0); ; {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			backoff = 0
			if c := l.admit(conn.(socket)); c != nil {
				return c, nil
			}
		case errors.Is(err, net.ErrClosed):
			return nil, io.EOF
		default:
			l.Counts.AcceptErrors.Add(1)
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(backoff):
			case <-l.closed:
			}
		}
	}
}

// Close stops accepting; open connections stay open. fasthttp closes the listener once more, which
// is not an error.
func (l *Listener) Close() (err error) {
	l.closeOnce.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

func (l *Listener) admit(tcp socket) net.Conn {
	c := &Conn{Conn: tcp, tcp: tcp, listener: l}
	c.Remote, c.Accepted = receiver.RemoteAddress(tcp.RemoteAddr()), time.Now()
	member, err := l.Limiter.Enter(c)
	if err == nil {
		c.Member = member
		if l.tls != nil {
			c.below = &greeting{socket: tcp, of: c}
			c.tls = tls.Server(c.below, l.tls)
			c.Conn = c.tls
		}
		return c
	}
	answer := fullAnswer
	if full := new(connlimit.FullError); errors.As(err, &full) && full.From.IsValid() {
		answer = fullIPAnswer
	}
	if l.tls == nil { // a TLS client cannot read it
		// A few hundred bytes into the empty buffer of a new socket: this does not block.
		_ = tcp.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(tcp, answer)
	}
	_ = tcp.Close()
	return nil
}

// Connections returns how many connections are open.
func (l *Listener) Connections() int { return l.Limiter.Len() }

// Abort closes every connection, busy or not, and returns how many there were.
func (l *Listener) Abort() (closed int) {
	l.Limiter.Each(func(open net.Conn) {
		open.(*Conn).Abort()
		closed++
	})
	return closed
}

// AbortSilent closes the connections that sent no byte: fasthttp counts them as requests in flight.
func (l *Listener) AbortSilent() {
	l.Limiter.Each(func(open net.Conn) {
		if c := open.(*Conn); !c.heard.Load() {
			c.Abort()
		}
	})
}

// Peer is the other end of a connection.
type Peer struct {
	Member   *connlimit.Member
	Remote   netip.Addr
	Accepted time.Time
	// Certificate is the client's, verified; nil: the client sent none. It is set before the first byte is read.
	Certificate *x509.Certificate
	// Holder is the UID of the pod that had Remote at a former request; nil: none is known.
	Holder atomic.Pointer[string]
}

// Conn is one connection. Only the goroutine that serves it reads from it and uses Ended, Heads and Unsent.
type Conn struct {
	net.Conn // tcp, or TLS over it
	Peer
	tcp    socket
	tls    *tls.Conn   // nil: plain HTTP
	below  *greeting   // of tls
	shaken atomic.Bool // the TLS handshake has succeeded

	listener *Listener
	Ended    bool        // the client has closed its side
	Heads    int         // bytes of requests' first lines and headers whose memory is kept
	Linger   atomic.Bool // the client may still be sending when we close
	Unsent   func()      // called when a write fails; may be nil
	closed   atomic.Bool
	heard    atomic.Bool // a byte has arrived
}

// greeting is the socket below TLS, which keeps handshakes, and messages after them, until they are whole.
type greeting struct {
	socket
	of     *Conn
	silent connlimit.Silent
}

// Read implements net.Conn.
func (g *greeting) Read(b []byte) (int, error) {
	n, err := g.socket.Read(b[:min(len(b), connlimit.ReadAtOnce)])
	if !g.silent.Received(n, g.of.shaken.Load()) {
		return 0, errSilent
	}
	return n, err
}

var (
	errSilent   = errors.New("the client sent too much of TLS that is no data")
	errUnshaken = errors.New("there was no TLS handshake")
)

// Read records the client's end of stream: fasthttp would take a truncated chunked body for a
// complete one.
func (c *Conn) Read(b []byte) (int, error) {
	if c.tls != nil && !c.shaken.Load() && c.shake() != nil {
		return 0, io.EOF // shake has logged and counted it
	}
	n, err := c.Conn.Read(b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		c.Ended = true
	}
	if n > 0 && c.below != nil {
		c.below.silent.Read()
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

// Write implements net.Conn. It begins no handshake, whose client might never answer: fasthttp writes a refusal before it reads,
// where it accepts connections.
func (c *Conn) Write(b []byte) (int, error) {
	if c.tls != nil && !c.shaken.Load() {
		return 0, errUnshaken
	}
	n, err := c.Conn.Write(b)
	if err != nil && c.Unsent != nil {
		c.Unsent()
	}
	return n, err
}

// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1). No HTTP method begins
// with it.
const tlsHandshake = 22

// refuse logs that the client mistook the port, and answers in plain text. A TLS client does not
// expect that; its error, "wrong version number" or "not a TLS handshake", says more than a closed
// connection.
func (c *Conn) refuse(message, answer string) {
	if suppressed, ok := c.listener.mistaken.Allow(); ok {
		c.listener.log.Warn(message, "peer", c.RemoteAddr().String(), "suppressed", suppressed)
	}
	c.Linger.Store(true)
	_ = c.tcp.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c.tcp, answer)
}

// Limits of the bytes that a client may still send after its answer. Closing a socket with unread
// bytes resets it, and the client may lose the answer.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// Close closes the connection; one that lingers first lets the client read the answer.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.Member.Leave()
	if c.Linger.Load() {
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

// Abort closes the connection at once: TLS would say goodbye, and wait for the client to take it.
func (c *Conn) Abort() { _ = c.tcp.Close() }

// SetLinger is that of a TCP connection.
func (c *Conn) SetLinger(seconds int) error {
	if tcp, ok := c.tcp.(interface{ SetLinger(int) error }); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}

// readerOnly hides the connection's other methods, such as ReadFrom, from io.Copy.
type readerOnly struct{ io.Reader }

type errorBody struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// refuseConnection returns a complete answer for a connection that is not served.
func refuseConnection(status int, reason, headers, message string) string {
	body, _ := json.Marshal(struct {
		Error errorBody `json:"error"`
	}{errorBody{reason, message}})
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Type: %s\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), "application/json", len(body)+1, headers, body)
}

const soon = "Retry-After" + ": 1\r\n"

var (
	fullAnswer = refuseConnection(http.StatusServiceUnavailable, "connections", soon,
		"connection limit reached: try again in a moment")
	fullIPAnswer = refuseConnection(http.StatusTooManyRequests, "connections", soon,
		"connection limit of this address reached: use one connection for many requests")
	encryptedAnswer = refuseConnection(http.StatusBadRequest, "request", "", "this port is TLS: say https://, not http://")
	plainAnswer     = refuseConnection(http.StatusBadRequest, "request", "",
		"this port is plain HTTP: say http://, not https://")
)
