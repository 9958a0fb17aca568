package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// Server owns the StatsD sockets.
type Server struct {
	config Config
	parts  Parts
	logger *slog.Logger

	addrs      []net.Addr
	packets    []boundPacket
	streams    []*streams
	rejections map[string]*rejectionLog // by receiver

	arrivals arrivals // of the sources that Run serves

	unix      context.Context // of Unix sockets
	closeUnix func()
}

// boundPacket is a datagram socket that is bound, before Run.
type boundPacket struct {
	listener Listener
	socket   *packetSocket
	account  *ledger.Account
}

// Parts are the dependencies of a Server.
type Parts struct {
	// NewApplier makes an Applier that is online.
	NewApplier func() LineApplier
	Ledger     *ledger.Ledger
	Logger     *slog.Logger

	// Senders looks up the holder of an address. Nil: samples carry no sender.
	Senders PacketSenders
	// Pending holds samples whose sender is unknown. Nil: they are rejected.
	Pending *pending.Buffer
	// Relay gets all lines. Nil: nobody does.
	Relay Relay
	// Explain says why a sample was rejected; empty: the reason says all. It may be nil. It is called
	// for few of the rejected samples.
	Explain func(metric.Reason, *metric.Sample) string
	// Rejections remembers rejected samples for lists; may be nil.
	Rejections *record.Rejections
}

// Relay forwards lines to other servers.
type Relay interface {
	// Relay takes whole lines, or none, separated by newlines. It copies them and does not wait.
	Relay(lines []byte)
}

// New binds all sockets, or none. From then on, data waits in the kernel's buffers for Run, and the
// ledger shows every receiver.
func New(config Config, parts Parts) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Server{config: config, parts: parts, logger: parts.Logger, rejections: map[string]*rejectionLog{}}
	s.unix, s.closeUnix = context.WithCancel(context.Background())
	for _, l := range config.Listeners {
		if err := s.bind(l); err != nil {
			s.Close()
			return nil, bindError(l, err)
		}
	}
	return s, nil
}

func bindError(l Listener, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %v: the address is in use by another process, such as another StatsD server: %w",
			l, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("cannot listen on %v: no permission (a port below 1024, or the socket's folder): %w", l, err)
	}
	return fmt.Errorf("cannot listen on %v: %w", l, err)
}

func (s *Server) bind(l Listener) error {
	if s.rejections[l.receiver()] == nil {
		s.rejections[l.receiver()] = newRejectionLog(s.logger, l.receiver())
		s.rejections[l.receiver()].explain, s.rejections[l.receiver()].record = s.parts.Explain, s.parts.Rejections
	}
	switch l.Network {
	case "udp", "unixgram":
		sockets, err := openPackets(l, s.logger)
		if err != nil {
			return err
		}
		for _, socket := range sockets {
			if s.parts.Senders != nil {
				socket.enableSenders()
			}
			s.packets = append(s.packets, boundPacket{l, socket, s.parts.Ledger.OpenDatagrams(l.receiver())})
		}
		s.addrs = append(s.addrs, sockets[0].address)
	case "tcp", "unix":
		listener, err := listenStream(l)
		if err != nil {
			return err
		}
		s.streams = append(s.streams, s.newStreams(l, listener))
		s.addrs = append(s.addrs, listener.Addr())
	}
	return nil
}

func listenStream(l Listener) (streamListener, error) {
	at, put := l.Address, func() (socketFile, error) { return socketFile{}, nil }
	if l.Network == "unix" {
		var err error
		if at, put, err = l.place(); err != nil {
			return nil, err
		}
	}
	config := connlimit.ListenConfig(l.ReadBuffer)
	listener, err := config.Listen(context.Background(), l.Network, at)
	if err != nil {
		return nil, err
	}
	if file, ok := listener.(*net.UnixListener); ok {
		if listener, err = newUnixListener(file, put); err != nil {
			return nil, err
		}
	}
	acceptor, err := newAcceptor(listener)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return acceptor, nil
}

func (s *Server) newStreams(l Listener, listener streamListener) *streams {
	unused := s.parts.Ledger.Open(l.receiver()) // until there is a first worker
	limits := connlimit.Limits{Max: s.config.MaxConnections, MaxEach: s.config.MaxConnectionsPerAddress, Keep: keepPlace}
	return &streams{
		listener: listener,
		newWorker: func() *worker { // never two at once: see workerLocked
			account := unused
			if unused = nil; account == nil {
				account = s.parts.Ledger.Open(l.receiver())
			}
			return &worker{in: s.newIngester(l, account)}
		},
		newFramer: func(in *ingester) framer {
			if l.Network == "unix" {
				return newUnixFramer(in, s.config.MaxPacket, s.config.MaxLine)
			}
			lines := newLineFramer(in, s.config.MaxLine)
			lines.guards, lines.httpAddress = true, s.config.HTTPAddress
			return lines
		},
		limiter:      connlimit.New(l.Network+" "+listener.Addr().String(), limits, s.logger),
		idleTimeout:  s.config.IdleTimeout,
		drainTimeout: s.config.DrainTimeout,
		rejections:   s.rejections[l.receiver()],
		turn:         turn{all: &s.arrivals},
		logger:       s.logger.With("listener", l.String()),
	}
}

func (s *Server) newIngester(l Listener, account *ledger.Account) *ingester {
	in := &ingester{
		scanner:    statsd.NewScanner(s.config.options(l.Dialect)),
		applier:    s.parts.NewApplier(),
		account:    account,
		rejections: s.rejections[l.receiver()],
		pending:    s.parts.Pending,
		relay:      s.parts.Relay,
		senders:    s.parts.Senders,
	}
	if in.senders != nil {
		in.resolver.Senders = in.senders
	}
	in.scanner.Sample.DefaultExternal = l.About == AboutExternal
	return in
}

// Run serves until ctx ends. It returns when all data that had arrived by then is applied,
// everything is closed and every goroutine has ended. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	for _, bound := range s.packets {
		d := &datagrams{
			in:           s.newIngester(bound.listener, bound.account),
			socket:       bound.socket,
			turn:         turn{all: &s.arrivals},
			drainTimeout: s.config.DrainTimeout,
			logger:       s.logger.With("listener", bound.listener.String()),
		}
		until := s.until(ctx, bound.socket.address)
		serving.Go(func() { d.run(until) })
	}
	for _, stream := range s.streams {
		until := s.until(ctx, stream.listener.Addr())
		serving.Go(func() { stream.run(until) })
	}
	serving.Go(func() { <-ctx.Done() }) // all listeners may be off
	serving.Wait()
	s.closeUnix()
	s.arrivals.close()
	return nil
}

// Freshen applies the data that has arrived, although datagrams gather for some milliseconds: a
// sample that was sent before a read is in its answer, and one that was sent before a push comes
// before it. Any goroutine may call it. Data that takes more than some milliseconds to apply stays
// for the socket's goroutine.
func (s *Server) Freshen() { s.arrivals.freshen() }

// Part makes clients go elsewhere. Clients of TCP, later ones too, are asked to: this side closes its end
// for writing. Their data is still applied. Unix sockets are closed once all that they hold is applied:
// then a client's write fails. UDP goes on.
func (s *Server) Part() {
	s.closeUnix()
	for _, stream := range s.streams {
		stream.part()
	}
}

// until is the context of a listener: Part ends that of Unix sockets.
func (s *Server) until(ctx context.Context, address net.Addr) context.Context {
	if _, is := address.(*net.UnixAddr); !is {
		return ctx
	}
	own, end := context.WithCancel(ctx)
	context.AfterFunc(s.unix, end)
	return own
}

// Addrs are the addresses of the listeners, in the order of the configuration.
func (s *Server) Addrs() []net.Addr { return s.addrs }

// Close closes the sockets if Run is not called; after Run it does nothing.
func (s *Server) Close() {
	s.closeUnix()
	for _, bound := range s.packets {
		bound.socket.close()
	}
	for _, stream := range s.streams {
		_ = stream.listener.Close()
	}
}
