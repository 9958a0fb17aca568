package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sluice-metrics/sluice/internal/mutualtls"
	"github.com/sluice-metrics/sluice/internal/ratelog"
)

const (
	// reconnectWait is the time between two attempts to reach the user's NATS.
	reconnectWait = 500 * time.Millisecond
	// connectTimeout bounds the first attempt, which the start waits for.
	connectTimeout = 2 * time.Second
	// unreceived bounds the messages that wait for one subscription's handler.
	unreceivedMessages, unreceivedBytes = 1 << 18, 128 << 20
)

// timeouts bound what a bus waits for.
type timeouts struct {
	start     time.Duration // of the embedded server, which waits for nothing outside
	handshake time.Duration // of connections that do not speak TLS
	write     time.Duration // long, since a replica that is stopped for a moment should not have to connect again
	ping      time.Duration // between two pings, which find a dead route: a host that lost power sends no FIN
	close     time.Duration // for sending the last messages
}

var defaultTimeouts = timeouts{
	start: 10 * time.Second, handshake: 2 * time.Second, write: 10 * time.Second, ping: 2 * time.Second,
	close: 2 * time.Second,
}

// Bus publishes and receives messages over NATS.
type Bus struct {
	cfg     Config
	within  timeouts
	log     *slog.Logger
	secured *mutualtls.Certificates // nil: no TLS between replicas
	server  *server.Server          // nil: the user's NATS
	conn    *nats.Conn

	outbox   *outbox
	sent     chan struct{}  // closed once the outbox has been sent
	handlers sync.WaitGroup // of the subscriptions' goroutines
	ending   atomic.Bool

	dropped, slow atomic.Uint64
	complaints    ratelog.Limiter
}

// Open starts the embedded server, or connects to the user's NATS. Neither the other replicas nor
// the user's NATS need to be there: the bus looks for them until it ends.
func Open(_ context.Context, cfg Config, log *slog.Logger) (*Bus, error) {
	return openWithin(defaultTimeouts, cfg, log)
}

func openWithin(within timeouts, cfg Config, log *slog.Logger) (*Bus, error) {
	b := &Bus{cfg: cfg, within: within, log: log, outbox: newOutbox(), sent: make(chan struct{})}
	b.complaints.Interval = logInterval
	var err error
	if cfg.URL != "" {
		if err = cfg.readable(); err == nil {
			b.conn, err = nats.Connect(cfg.URL, b.options()...)
		}
	} else if err = b.embed(); err == nil {
		b.conn, err = nats.Connect("", append(b.options(), nats.InProcessServer(b.server))...)
	}
	if err != nil {
		b.shutdown()
		return nil, fmt.Errorf("connect the replicas: %w", err)
	}
	go func() {
		defer close(b.sent)
		b.outbox.send(b.send)
	}()
	return b, nil
}

func (b *Bus) embed() (err error) {
	if b.secured, err = newCertificates(b.cfg, b.log); err != nil {
		return err
	}
	b.server, err = startServer(b.cfg, b.within, b.secured, b.log)
	return err
}

// newCertificates reads the files of the connections between replicas; nil: no TLS. One rule holds
// for both ends, since replicas are equals.
func newCertificates(cfg Config, log *slog.Logger) (*mutualtls.Certificates, error) {
	if cfg.CertFile == "" {
		return nil, nil
	}
	c := mutualtls.Config{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, CAFile: cfg.CAFile, Wanted: "a host of the peers",
		Which: "between replicas"}
	for _, peer := range cfg.Peers {
		host, _, err := net.SplitHostPort(peer)
		if err != nil {
			return nil, err
		}
		c.Names = append(c.Names, host)
	}
	return mutualtls.New(c, log)
}

func (b *Bus) options() []nats.Option {
	options := []nats.Option{
		nats.Name("sluice " + b.cfg.ReplicaName()),
		nats.NoEcho(), // a replica knows its own messages
		nats.Timeout(connectTimeout),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectWait),
		nats.PingInterval(b.within.ping), nats.MaxPingsOutstanding(pingsUnanswered),
		nats.FlusherTimeout(b.within.write),
		nats.ErrorHandler(b.failed), nats.DisconnectErrHandler(b.disconnected), nats.ReconnectHandler(b.connected),
	}
	if b.cfg.CredsFile != "" {
		options = append(options, nats.UserCredentials(b.cfg.CredsFile))
	}
	if b.cfg.URLCAFile != "" {
		options = append(options, nats.RootCAs(b.cfg.URLCAFile))
	}
	return options
}

// Addr is the address on which the embedded server listens for the other replicas; nil: none.
func (b *Bus) Addr() net.Addr {
	if b.server == nil {
		return nil
	}
	return b.server.ClusterAddr()
}

// Publish sends a copy of the message to the other replicas, at most once. It never waits: it
// drops the message and returns an error while too many are unsent.
func (b *Bus) Publish(subject string, message []byte) error {
	err := b.outbox.put(subject, message)
	if err != nil {
		b.drop(err)
	}
	return err
}

// Busy reports whether so much is unsent that what can wait should: here, or in the embedded server for a replica on a slow
// connection, whose messages it drops from three quarters of maxUnsent on, and tells nobody.
func (b *Bus) Busy() bool {
	if b.outbox.busy() {
		return true
	}
	if b.server == nil {
		return false
	}
	routes, err := b.server.Routez(nil)
	return err == nil && slices.ContainsFunc(routes.Routes, func(r *server.RouteInfo) bool { return r.Pending > maxUnsent/4 })
}

func (b *Bus) send(subject string, message []byte) {
	if err := b.conn.Publish(subject, message); err != nil {
		b.drop(err)
	}
}

func (b *Bus) drop(err error) {
	b.dropped.Add(1)
	b.complain("dropped messages to other replicas", "error", err)
}

// Subscribe has handle called with each message whose subject matches, one after the other. A
// message is valid during the call only. A call in progress may outlast cancel, but not Run.
func (b *Bus) Subscribe(subject string, handle func(subject string, message []byte)) (cancel func(), err error) {
	subscription, err := b.conn.Subscribe(subject, func(m *nats.Msg) { handle(m.Subject, m.Data) })
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	b.handlers.Add(1)
	subscription.SetClosedHandler(func(string) { b.handlers.Done() })
	err = subscription.SetPendingLimits(unreceivedMessages, unreceivedBytes)
	return func() { _ = subscription.Unsubscribe() }, err
}

// Run closes the bus once ctx ends: it sends the messages that were published before, then waits
// for the handlers.
func (b *Bus) Run(ctx context.Context) error {
	<-ctx.Done()
	b.ending.Store(true)
	b.outbox.close()
	end := time.Now().Add(b.within.close)
	if endsWithin(time.Until(end), b.sent) {
		// A user's NATS that is away takes no more.
		if b.conn.IsConnected() {
			_ = b.conn.FlushTimeout(max(time.Until(end), time.Millisecond))
		}
	}
	b.shutdown()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		<-b.sent
		b.handlers.Wait()
	}()
	if !endsWithin(b.within.close, finished) {
		return errors.New("the handlers of replicas' messages did not end")
	}
	return nil
}

func endsWithin(timeout time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(timeout):
		return false
	}
}

func (b *Bus) shutdown() {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
}

// failed is called with errors that no call returns.
func (b *Bus) failed(_ *nats.Conn, subscription *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		b.slow.Add(1)
	}
	subject := ""
	if subscription != nil {
		subject = subscription.Subject
	}
	b.complain("connections between replicas", "error", err, "subject", subject)
}

func (b *Bus) disconnected(_ *nats.Conn, err error) {
	if !b.ending.Load() && err != nil {
		b.log.Warn("lost the connection to NATS", "error", err)
	}
}

func (b *Bus) connected(conn *nats.Conn) {
	b.log.Info("connected to NATS", "server", conn.ConnectedServerName())
}

func (b *Bus) complain(message string, args ...any) {
	if suppressed, ok := b.complaints.Allow(); ok {
		b.log.Warn(message, append(args, "suppressed", suppressed)...)
	}
}
