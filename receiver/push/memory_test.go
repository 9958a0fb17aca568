package push

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
)

// inVirtualTime runs a test whose servers listen inMemory. Time passes only while all wait, so no
// limit of the server can be missed by a slow machine. Bodies in zstd cannot be sent: their decoders
// are shared with other tests.
func inVirtualTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	_ = new(fasthttp.ResponseHeader).Header() // starts fasthttp's clock, which never ends, outside
	synctest.Test(t, f)
}

// runInVirtualTime is inVirtualTime for a part of a test.
func runInVirtualTime(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inVirtualTime(t, f) })
}

// inMemory makes a server listen on a network within the process.
func inMemory(_ *Config, p *Parts) {
	p.Listener = &memory{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// memory is that network. Goroutines that wait for it are durably blocked, as those that wait for a
// socket are not.
type memory struct {
	accepted  chan net.Conn
	closed    chan struct{}
	closeOnce sync.Once
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.accepted:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.closeOnce.Do(func() { close(m.closed) })
	return nil
}

func (*memory) Addr() net.Addr { return loopback }

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9091}

func (m *memory) dial() (net.Conn, error) { return m.dialFrom(loopback) }

func (m *memory) dialFrom(address net.Addr) (net.Conn, error) {
	up, down := newStream(), newStream()
	select {
	case m.accepted <- &memoryConn{in: up, out: down, remote: address}:
		return &memoryConn{in: down, out: up, remote: loopback}, nil
	case <-m.closed:
		return nil, syscall.ECONNREFUSED
	}
}

// memoryConn is one end of a connection.
type memoryConn struct {
	in, out *stream
	remote  net.Addr
}

func (c *memoryConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *memoryConn) Write(b []byte) (int, error) { return c.out.write(b) }
func (*memoryConn) LocalAddr() net.Addr           { return loopback }
func (c *memoryConn) RemoteAddr() net.Addr        { return c.remote }

func (c *memoryConn) Close() error {
	c.in.change(func() { c.in.unread = true })
	return c.CloseWrite()
}

func (c *memoryConn) CloseWrite() error {
	c.out.change(func() { c.out.ended = true })
	return nil
}

func (c *memoryConn) SetDeadline(at time.Time) error {
	_ = c.SetReadDeadline(at)
	return c.SetWriteDeadline(at)
}

func (c *memoryConn) SetReadDeadline(at time.Time) error {
	c.in.change(func() { c.in.readBy = at })
	return nil
}

func (c *memoryConn) SetWriteDeadline(at time.Time) error {
	c.out.change(func() { c.out.writeBy = at })
	return nil
}

// stream is one direction of a connection.
type stream struct {
	mu              sync.Mutex
	changed         *sync.Cond
	held            []byte
	ended           bool // the writer has closed it
	unread          bool // the reader has closed it
	readBy, writeBy time.Time
}

// streamBytes is what a stream holds until it is read.
const streamBytes = 64 << 10

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

// waitLocked waits for a change, or for a deadline.
func (s *stream) waitLocked(deadline time.Time) {
	if !deadline.IsZero() {
		defer time.AfterFunc(time.Until(deadline), func() { s.change(func() {}) }).Stop()
	}
	s.changed.Wait()
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.unread:
			return 0, net.ErrClosed
		case passed(s.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(s.held) > 0:
			n := copy(b, s.held)
			s.held = s.held[n:]
			s.changed.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		}
		s.waitLocked(s.readBy)
	}
}

func (s *stream) write(b []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for written < len(b) {
		n := min(streamBytes-len(s.held), len(b)-written)
		switch {
		case s.ended:
			return written, net.ErrClosed
		case s.unread:
			return written, syscall.EPIPE
		case passed(s.writeBy):
			return written, os.ErrDeadlineExceeded
		case n == 0:
			s.waitLocked(s.writeBy)
		default:
			s.held = append(s.held, b[written:written+n]...)
			written += n
			s.changed.Broadcast()
		}
	}
	return written, nil
}

// patient is a listener whose connections have no deadlines: a machine that stops for a while breaks
// no request. Tests of deadlines run in virtual time.
type patient struct{ net.Listener }

func (p patient) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return patientConn{c.(*net.TCPConn)}, nil
}

type patientConn struct{ *net.TCPConn }

func (patientConn) SetDeadline(time.Time) error      { return nil }
func (patientConn) SetReadDeadline(time.Time) error  { return nil }
func (patientConn) SetWriteDeadline(time.Time) error { return nil }
