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
	"time"

	"github.com/sluice-metrics/sluice/connlimit"
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
	limiter      *connlimit.Limiter
	idleTimeout  time.Duration
	drainTimeout time.Duration
	rejections   *rejectionLog
	logger       *slog.Logger

	mu       sync.Mutex
	idle     []*worker // workers of closed connections, for reuse: accounts are never closed
	stopping bool
}

// worker is the state of a connection's goroutine. Without a connection, it is offline.
type worker struct {
	in     *ingester
	framer framer
}

type streamListener interface {
	net.Listener
	SetDeadline(time.Time) error
}

type streamConn interface {
	net.Conn
	CloseRead() error
}

// run serves until ctx ends. Then it applies the data that the peers have sent, and closes.
func (s *streams) run(ctx context.Context) {
	var serving sync.WaitGroup
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { s.shut(); close(woken) })
	s.accept(ctx, &serving)
	if !stop() {
		<-woken
	}
	_ = s.listener.Close()
	giveUp := time.AfterFunc(s.drainTimeout, s.closeAll)
	serving.Wait()
	giveUp.Stop()
	for _, w := range s.idle {
		w.in.applier.Close()
	}
}

// accept accepts connections until the listener's deadline, which shut sets.
func (s *streams) accept(ctx context.Context, serving *sync.WaitGroup) {
	backoff := time.Duration(0)
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			backoff = 0
			s.admit(conn.(streamConn), serving)
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		default: // usually out of descriptors
			backoff = min(max(2*backoff, 5*time.Millisecond), maxBackoff)
			s.logger.Error("cannot accept a connection; retrying", "error", err, "after", backoff)
			pause(ctx, backoff)
		}
	}
}

// admit starts the connection's goroutine, or closes the connection.
func (s *streams) admit(conn streamConn, serving *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	member, err := s.limiter.Enter(conn) // the goroutine of one that yields finds it closed
	if err != nil {
		_ = conn.Close()
		return
	}
	if s.stopping {
		_ = conn.CloseRead()
	}
	w := s.workerLocked()
	serving.Go(func() {
		s.serve(member, w)
		s.release(member, w)
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
		return w
	}
	w := s.newWorker()
	w.in.applier.Offline()
	return w
}

func (s *streams) release(conn *connlimit.Member, w *worker) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, w)
}

// serve reads a connection to its end. Stopping uses the same code: shut closes the reading side,
// and an end of file follows the data that was received before.
func (s *streams) serve(conn *connlimit.Member, w *worker) {
	w.framer.reset()
	from := RemoteAddress(conn.RemoteAddr())
	for {
		if s.idleTimeout > 0 {
			_ = conn.SetReadDeadline(time.Now().Add(s.idleTimeout))
		}
		n, err := conn.Read(w.framer.readBuffer())
		if n == 0 && err == nil {
			continue
		}
		w.in.applier.Online()
		w.in.setSender(from)
		bad := error(nil)
		if n > 0 {
			bad = w.framer.add(n)
		}
		if err != nil {
			w.framer.end(err == io.EOF && !s.isStopping())
		}
		if w.in.accepted() > 0 {
			conn.Busy()
		}
		w.in.endBatch()
		w.in.applier.Offline()
		if bad != nil {
			s.rejections.closed(conn.RemoteAddr(), bad)
			if other := new(foreignError); errors.As(bad, &other) {
				other.refuse(conn, w.in)
			}
		}
		if bad != nil || err != nil {
			return
		}
	}
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
