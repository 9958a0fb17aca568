package otlpgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
)

// Limits of clients. An SDK holds one connection with one call at a time, a Collector up to ten calls.
const (
	// MaxMessage bounds a message, as received and decompressed.
	MaxMessage = 16 << 20
	// MaxBuffered is the memory of all bodies in flight. The largest message of usual data points, as received and
	// decoded, fits three quarters of it, which one address may have.
	MaxBuffered = 8 * MaxMessage

	maxConnections     = 1000
	maxConnectionsEach = 250
	maxStreams         = 32 // of one connection
	maxHeader          = 8 << 10
	maxReceived        = 8 << 20 // headers of open calls on the wire, beyond 8 KiB of each connection
	// maxCalls bounds the calls that are open, of which each holds some 20 KiB beside its message. A namespace has at most
	// three times what is left of them, whose author may have any number of pods; an address has maxCallsEach.
	maxCalls, maxCallsEach = 4096, 1024

	// callPatience bounds the arrival of a message: SDKs and Collector give up after 10 s or 5 s.
	callPatience = 10 * time.Second
	// mostAwaited is how many calls may wait for their message for callPatience. Those beyond it have
	// hurriedPatience, which is plenty for a client that sends its message with the headers: so calls without
	// a message keep no other out.
	mostAwaited     = 1024
	hurriedPatience = 500 * time.Millisecond

	keep         = 30 * time.Second // a call in flight keeps its connection for so long
	idle         = 5 * time.Minute
	pingEvery    = 30 * time.Second
	pingPatience = 15 * time.Second
	writeStall   = 10 * time.Second // a client that reads nothing for so long is gone
	maxFrame     = 16 << 10         // gRPC's clients send no larger one
	window       = 128 << 10        // bytes of a connection that wait to be read
)

// Door is the port for OTLP/gRPC. It is an httpserver.Door.
type Door struct {
	push     *httpserver.Server
	listener *listener.Listener
	http     *http.Server
	grace    time.Duration
	calls    *fair.Room[body.Share, int]
	each     *connlimit.Slots
	awaited  atomic.Int64 // calls whose message has not arrived
	metrics  *metrics
	log      *slog.Logger

	mu       sync.Mutex // guards stopping
	stopping bool
	inFlight sync.WaitGroup // calls
}

// errShare refuses a call of those who have their part of maxCalls.
var errShare = errors.New("of the namespace, or of the address of no known pod")

// ErrAddress is wrapped by the error about the address.
var ErrAddress = errors.New("cannot listen for OTLP over gRPC")

// New binds the address. The caller must call Run, if only with a context that has ended.
func New(address string, push *httpserver.Server, cfg httpserver.Config, log *slog.Logger) (*Door, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("push: %w on %s: %w", ErrAddress, address, err)
	}
	d := &Door{push: push, grace: cfg.ShutdownTimeout, calls: fair.NewRoom[body.Share](maxCalls),
		each: connlimit.NewSlots(0, maxCallsEach), log: log}
	d.listener = listener.New(ln, listener.Options{
		Name:         "otlp-grpc",
		Limits:       connlimit.Limits{Max: maxConnections, MaxEach: maxConnectionsEach, Keep: keep, MaxReceived: maxReceived},
		Certificates: push.Certificates, Protocols: []string{"h2", "http/1.1"}, ReadTimeout: cfg.ReadTimeout, Log: log,
	})
	d.metrics = newMetrics()
	d.http = d.newHTTP()
	return d, nil
}

// newHTTP configures net/http. HTTP/1 is spoken to tell clients that this is the wrong port.
func (d *Door) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // listener.Conn has the TLS, unseen by net/http
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: d, Protocols: protocols, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout: callPatience, WriteTimeout: keep, IdleTimeout: idle,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: window,
			MaxReceiveBufferPerStream: window, SendPingTimeout: pingEvery, PingTimeout: pingPatience,
			WriteByteTimeout: writeStall,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(d.log.With("listener", "otlp-grpc").Handler(), slog.LevelDebug),
	}
}

// Addr is the address, with the actual port if the configuration says 0.
func (d *Door) Addr() net.Addr { return d.listener.Addr() }

// Run implements httpserver.Door. While it stops, calls are answered UNAVAILABLE.
func (d *Door) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- d.http.Serve(counted{d.listener, d}) }()
	select {
	case <-ctx.Done():
	case err := <-served:
		d.stop()
		return fmt.Errorf("push: OTLP/gRPC: serving ended: %w", err)
	}
	_ = d.listener.Close()
	<-served
	d.stop()
	return nil
}

// stop ends the connections, once their calls have ended or ShutdownTimeout is over.
func (d *Door) stop() {
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	_ = d.listener.Close()
	grace, cancel := context.WithTimeout(context.Background(), d.grace)
	defer cancel()
	if err := d.http.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		n := d.listener.Abort()
		d.log.Warn("push: OTLP/gRPC: connections were aborted at shutdown", "connections", n, "after", d.grace)
	}
}

// Wait implements httpserver.Door.
func (d *Door) Wait() { d.inFlight.Wait() }

// begin counts a call in flight, unless the server stops.
func (d *Door) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopping {
		d.inFlight.Add(1)
	}
	return !d.stopping
}

// counted accepts connections whose frames are counted.
type counted struct {
	*listener.Listener
	door *Door
}

var connections atomic.Uint64

// Accept implements net.Listener.
func (l counted) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := accepted.(*listener.Conn)
	return &conn{Conn: c, door: l.door, near: connections.Add(1), streams: connlimit.NewStreams(c.Member, false)}, nil
}

type connKey struct{}

// conn is one connection.
type conn struct {
	*listener.Conn
	door    *Door
	near    uint64
	streams *connlimit.Streams
	again   int // bytes that are written once more: net/http writes the rest of a write that a deadline cut off
}

// Read implements net.Conn. It ends the connection of a client that sends too many frames which are answered by frames, or too
// much of headers.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.streams.Received(b[:n]) {
		c.door.metrics.pingedTooOften.Add(1)
		return 0, io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	c.streams.Sent(b[min(c.again, len(b)):])
	n, err := c.Conn.Write(b)
	c.again = len(b) - n
	return n, err
}
