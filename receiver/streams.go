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
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/connlimit"
)

// acceptGrace is how long a stop still accepts: whoever the kernel connected already may have written.
const acceptGrace = 20 * time.Millisecond

// keepPlace is how long a connection that brought a sample keeps its place when the listener is full. It is several
// flushes of most clients (10 s). After that, and as long as it brings none, it may have to yield to a new one.
const keepPlace = 30 * time.Second

// streams serves one stream listener, tcp or unix, with a goroutine per connection. Run owns the
// goroutines and waits for them.
type streams struct {
	name         string
	listener     streamListener
	newWorker    func() *worker
	limiter      *connlimit.Limiter
	idleTimeout  time.Duration
	drainTimeout time.Duration
	complaints   *complaints
	logger       *slog.Logger

	refused atomic.Uint64 // closed at once: there were too many, and none was idle
	yielded atomic.Uint64 // idle, and closed for a new one

	mu       sync.Mutex
	idle     []*worker // those of closed connections: an account is never closed, so it is handed on
	stopping bool
}

// worker is what a connection's goroutine works with. It is parked while no connection has it.
type worker struct {
	in    *intake
	split splitter
}

type streamListener interface {
	net.Listener
	SetDeadline(time.Time) error
}

type streamConn interface {
	net.Conn
	CloseRead() error
}

// run serves until ctx ends, then reads on what the peers had already sent, and closes.
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

// accept takes connections until the listener's deadline, which shut sets.
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
		default: // out of descriptors, usually
			backoff = min(max(2*backoff, 5*time.Millisecond), maxBackoff)
			s.logger.Error("cannot accept a connection, trying again", "error", err, "after", backoff)
			pause(ctx, backoff)
		}
	}
}

// admit starts the connection's goroutine, or closes one too many.
func (s *streams) admit(conn streamConn, serving *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	member, yielded, err := s.limiter.Enter(conn)
	if err != nil {
		s.refused.Add(1)
		s.complaints.closed(conn.RemoteAddr(), err)
		_ = conn.Close()
		return
	}
	if yielded != nil { // its goroutine finds it closed
		s.yielded.Add(1)
		s.complaints.closed(yielded.RemoteAddr(), errYielded)
		_ = yielded.Close()
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

var errYielded = errors.New("it was idle, and is closed for a new connection because the listener, or this address, has as many as allowed")

// RemoteAddress is a TCP peer's address: IPv4 where it is that, without a zone. A Unix socket's peer has none.
func RemoteAddress(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	if address := plain(tcp); address.IsValid() {
		return address
	}
	return netip.IPv6Unspecified() // nobody's: what has no name must not pass for a Unix socket's
}

func plain(a *net.TCPAddr) netip.Addr { return a.AddrPort().Addr().Unmap().WithZone("") }

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

// serve reads a connection to its end. Stopping is the same reading: shut closes the reading side, and
// what was received before is followed by an end of file.
func (s *streams) serve(conn *connlimit.Member, w *worker) {
	w.split.reset()
	from := RemoteAddress(conn.RemoteAddr())
	for {
		if s.idleTimeout > 0 {
			_ = conn.SetReadDeadline(time.Now().Add(s.idleTimeout))
		}
		n, err := conn.Read(w.split.space())
		if n == 0 && err == nil {
			continue
		}
		w.in.applier.Online()
		w.in.from(from)
		bad := error(nil)
		if n > 0 {
			bad = w.split.add(n)
		}
		if err != nil {
			w.split.end(err == io.EOF && !s.isStopping())
		}
		if w.in.taken() > 0 {
			conn.Busy()
		}
		w.in.settle()
		w.in.applier.Offline()
		if bad != nil {
			s.complaints.closed(conn.RemoteAddr(), bad)
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

// closeAll ends what draining did not: a peer that goes on writing.
func (s *streams) closeAll() {
	s.limiter.Each(func(conn net.Conn) { _ = conn.Close() })
}
