package receiver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
)

// acceptGrace is how long a stopping listener still accepts: a client whose connection waits in the
// kernel may have written already.
const acceptGrace = 20 * time.Millisecond

// keepPlace is how long a connection that brought a sample is safe when the listener is full:
// several flush intervals of most clients (10 s). A connection that brought none for longer may be
// replaced.
const keepPlace = 30 * time.Second

// streams serves one stream listener, tcp or unix, with one goroutine per connection. run owns the
// goroutines and waits for them.
type streams struct {
	listener     streamListener
	newWorker    func() *worker
	newFramer    func(*ingester) framer
	limiter      *connlimit.Limiter
	idleTimeout  time.Duration
	drainTimeout time.Duration
	rejections   *rejectionLog
	logger       *slog.Logger
	turn               // of accepting
	closed       bool  // no connection is accepted any more; guarded by turn
	fault        error // of the last connection that could not be accepted; guarded by turn

	mu       sync.Mutex
	idle     []*worker // workers of closed connections, for reuse: accounts are never closed, and framers of a few kept
	parting  bool      // clients are asked to connect elsewhere
	stopping bool
	serving  sync.WaitGroup
}

// worker is the state of a connection's goroutine. Without a connection, it is offline.
type worker struct {
	in     *ingester
	framer framer
}

type streamListener interface {
	net.Listener
	SetDeadline(time.Time) error
	// await calls take when connections may wait, and again until take returns true.
	await(take func(fd uintptr) bool) error
	// control calls f with the descriptor.
	control(f func(fd uintptr)) error
}

// acceptor is a listener whose connections any goroutine can accept. Its descriptor is a copy in
// Go's poller: net.Listener waits in Accept, or fails.
type acceptor struct {
	net.Listener
	file *os.File
	raw  syscall.RawConn
}

func newAcceptor(l net.Listener) (*acceptor, error) {
	file, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	return &acceptor{l, file, raw}, err
}

func (a *acceptor) await(take func(fd uintptr) bool) error { return a.raw.Read(take) }
func (a *acceptor) control(f func(fd uintptr)) error       { return a.raw.Control(f) }
func (a *acceptor) SetDeadline(at time.Time) error         { return a.file.SetReadDeadline(at) }
func (a *acceptor) Close() error                           { return errors.Join(a.file.Close(), a.Listener.Close()) }

// acceptNow accepts a connection that waits, if there is one; else the error is EAGAIN.
func acceptNow(fd uintptr) (streamConn, error) {
	accepted, peer, err := unix.Accept(int(fd))
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(accepted)
	file := os.NewFile(uintptr(accepted), "connection")
	defer file.Close()
	conn, err := net.FileConn(file) // has a copy of the descriptor
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && conn.RemoteAddr() == nil {
		return resetConn{tcp, tcpAddress(peer)}, nil
	}
	return conn.(streamConn), nil
}

// resetConn is a connection that its peer has reset before it was accepted. The peer's data can still be
// read, but only accept knows its address.
type resetConn struct {
	*net.TCPConn
	peer *net.TCPAddr
}

func (c resetConn) RemoteAddr() net.Addr { return c.peer }

func tcpAddress(peer unix.Sockaddr) *net.TCPAddr {
	switch p := peer.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: p.Addr[:], Port: p.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: p.Addr[:], Port: p.Port}
	}
	return &net.TCPAddr{}
}

type streamConn interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
}

// run serves until ctx ends. Then it applies the data that the peers have sent, and closes.
func (s *streams) run(ctx context.Context) {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { s.shut(); close(woken) })
	s.accept(ctx)
	if !stop() {
		<-woken
	}
	giveUp := time.AfterFunc(s.drainTimeout, s.closeAll)
	s.serving.Wait()
	giveUp.Stop()
	for _, w := range s.idle {
		w.in.applier.Close()
	}
}

// accept accepts connections until the listener's deadline, which shut sets, and closes the
// listener.
func (s *streams) accept(ctx context.Context) {
	fd := 0
	_ = s.listener.control(func(number uintptr) { fd = int(number) })
	if err := s.all.add(fd, s, false); err != nil {
		s.logger.Error("cannot watch the listener; reads and pushes do not wait for what it holds", "error", err)
	}
	defer s.close(fd)
	backoff := time.Duration(0)
	for s.listener.await(s.acceptOne) == nil {
		if err := s.takeFault(); err == nil {
			backoff = 0
		} else { // usually out of descriptors
			backoff = min(max(2*backoff, 5*time.Millisecond), maxBackoff)
			s.logger.Error("cannot accept a connection; retrying", "error", err, "after", backoff)
			pause(ctx, backoff)
		}
	}
}

func (s *streams) close(fd int) {
	s.take()
	defer s.give()
	s.closed = true
	s.all.remove(fd, s)
	_ = s.listener.Close()
}

func (s *streams) takeFault() (err error) {
	s.take()
	defer s.give()
	err, s.fault = s.fault, nil
	return err
}

// acceptOne accepts and admits one connection. It returns false if none waits. It has the turn
// throughout, so freshen finds each connection in the listener or among the sources.
func (s *streams) acceptOne(fd uintptr) (over bool) {
	s.take()
	defer s.give()
	if s.closed {
		return true
	}
	conn, err := acceptNow(fd)
	switch err {
	case nil:
		s.admit(conn)
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED:
		return false
	default:
		s.fault = err
	}
	return true
}

// freshen implements source: it accepts connections that wait, which are sources then.
func (s *streams) freshen(until time.Time) {
	_ = s.listener.control(func(fd uintptr) {
		for s.acceptOne(fd) && !s.cannotAccept() && time.Now().Before(until) {
		}
	})
}

func (s *streams) cannotAccept() bool {
	s.take()
	defer s.give()
	return s.closed || s.fault != nil
}

// admit starts the connection's goroutine, or closes the connection.
func (s *streams) admit(conn streamConn) {
	// If a connection yields, its goroutine finds it closed. Enter waits until that goroutine has let go of
	// the descriptor, which it may hold while it takes mu.
	member, err := s.limiter.Enter(conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parting { // else part closes the writing side: the connection has entered
		_ = conn.CloseWrite()
	}
	if s.stopping { // else shut closes the reading side
		_ = conn.CloseRead()
	}
	c := &connection{turn: turn{all: s.all}, streams: s, worker: s.workerLocked(), conn: member,
		from: RemoteAddress(conn.RemoteAddr()), accepted: time.Now()}
	c.open()
	s.serving.Go(func() {
		c.serve()
		s.release(member, c.worker)
	})
}

// RemoteAddress is the address of a TCP peer, without a zone; an IPv4-mapped address is IPv4. It is
// invalid for the peer of a Unix socket.
func RemoteAddress(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	if address := plainAddress(tcp); address.IsValid() {
		return address
	}
	return netip.IPv6Unspecified() // no holder: an invalid address would mean a Unix socket
}

func plainAddress(a *net.TCPAddr) netip.Addr { return a.AddrPort().Addr().Unmap().WithZone("") }

func (s *streams) workerLocked() *worker {
	if last := len(s.idle) - 1; last >= 0 {
		w := s.idle[last]
		s.idle = s.idle[:last]
		if w.framer == nil {
			w.framer = s.newFramer(w.in)
		}
		return w
	}
	w := s.newWorker()
	w.framer = s.newFramer(w.in)
	w.in.applier.Offline()
	return w
}

// keptFramers of closed connections stay, whose buffers have up to 72 KiB each.
const keptFramers = 64

func (s *streams) release(conn *connlimit.Member, w *worker) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) >= keptFramers {
		w.framer = nil
	}
	s.idle = append(s.idle, w)
}

// A connection is the source of one open stream. Its goroutine waits for data in Go's poller. Any
// goroutine may read and apply data, in turn with it.
type connection struct {
	turn
	*worker
	streams  *streams
	conn     *connlimit.Member
	from     netip.Addr
	raw      syscall.RawConn
	fd       int
	read     func(fd uintptr) bool // receive, allocated once
	ended    bool                  // guarded by turn
	holder   *metric.Pod           // that had the address when the connection sent; nil: none is known
	accepted time.Time
	foreign  *foreignError // why it has ended, if the client speaks another protocol
}

// open makes the connection a source.
func (c *connection) open() {
	c.framer.reset()
	c.read = c.receive
	c.raw, _ = c.conn.Conn.(syscall.Conn).SyscallConn() // fails for a nil connection only
	c.extend()
	_ = c.raw.Control(func(fd uintptr) { c.fd = int(fd) })
	if err := c.all.add(c.fd, c, false); err != nil {
		c.streams.logger.Error("cannot watch a connection; reads and pushes do not wait for what it holds", "error", err)
	}
}

// serve reads the connection to its end. Stopping uses the same code: shut closes the reading side,
// and an end of file follows the data that was received before.
func (c *connection) serve() {
	defer c.all.remove(c.fd, c)
	for !c.hasEnded() {
		if err := c.raw.Read(c.read); err != nil { // idle for too long, or closed
			c.take()
			c.end(err)
			c.give()
		}
	}
	// An answer reads the connection, which receive can't: it holds the descriptor. No other goroutine uses
	// a connection that has ended.
	if c.foreign != nil {
		c.foreign.refuse(c.conn, c.in)
	}
}

// receive reads once, and applies the data. It returns false if there is none yet.
func (c *connection) receive(fd uintptr) (over bool) {
	c.take()
	defer c.give()
	if c.ended {
		return true
	}
	n, err := readNow(fd, c.framer.readBuffer())
	if err == unix.EAGAIN {
		return false
	}
	if n <= 0 {
		if err == nil {
			err = io.EOF
		}
		c.end(err)
		return true
	}
	c.in.applier.Online()
	c.in.setSender(c.from)
	bad := errChangedHands
	if c.isHolders() {
		bad = c.framer.add(n)
	} else {
		c.in.account.Count(metric.Identity) // and in nobody's list
	}
	c.endBatch()
	if bad != nil {
		c.streams.rejections.closed(c.conn.RemoteAddr(), bad)
		_ = errors.As(bad, &c.foreign)
		c.ended = true
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // the goroutine may wait for data
		return true
	}
	c.extend()
	return true
}

var errChangedHands = errors.New("its address is another pod's now")

// isHolders reports whether the connection is of the pod that has its address now. A connection belongs to
// one process: its data is not that of a pod which got the address, or started, after the connection began.
func (c *connection) isHolders() bool {
	if c.in.sender == nil || c.in.sender.Pod == nil || c.in.sender.Pod == c.holder {
		return true
	}
	if c.holder == nil && c.in.sender.Follows(c.accepted) || c.holder != nil && c.holder.UID != c.in.sender.Pod.UID {
		return false
	}
	c.holder = c.in.sender.Pod
	return true
}

func readNow(fd uintptr, buffer []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), buffer)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// end handles the end of the stream.
func (c *connection) end(err error) {
	if c.ended {
		return
	}
	c.ended = true
	c.in.applier.Online()
	c.in.setSender(c.from)
	if c.isHolders() {
		c.framer.end(err == io.EOF && !c.streams.isStopping())
	}
	c.endBatch()
}

func (c *connection) endBatch() {
	if c.in.accepted() > 0 {
		c.conn.Busy()
	}
	c.in.endBatch()
	c.in.applier.Offline()
}

// extend sets the time at which the connection is idle.
func (c *connection) extend() {
	if c.streams.idleTimeout > 0 {
		_ = c.conn.SetReadDeadline(time.Now().Add(c.streams.idleTimeout))
	}
}

func (c *connection) hasEnded() bool {
	c.take()
	defer c.give()
	return c.ended
}

// freshen implements source.
func (c *connection) freshen(until time.Time) {
	_ = c.raw.Control(func(fd uintptr) {
		for c.receive(fd) && !c.hasEnded() && time.Now().Before(until) {
		}
	})
}

// part asks the clients of all connections, and of those that come, to connect elsewhere.
func (s *streams) part() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parting = true
	s.limiter.Each(func(conn net.Conn) { _ = conn.(streamConn).CloseWrite() })
}

// shut begins the stop.
func (s *streams) shut() {
	_ = s.listener.SetDeadline(time.Now().Add(acceptGrace))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	s.limiter.Each(func(conn net.Conn) { _ = conn.(streamConn).CloseRead() })
}

func (s *streams) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// closeAll ends connections whose peers keep writing while they are drained.
func (s *streams) closeAll() {
	s.limiter.Each(func(conn net.Conn) { _ = conn.Close() })
}
