package adapter

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/mutualtls"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// The bounds of requests, beside maxHeader. A frame's memory is taken with its first nine bytes. A stream's window is what is
// read of a body, so that none is left over.
const (
	headerTimeout = 32 * time.Second
	idleTimeout   = 90 * time.Second
	maxFrame      = 16 << 10
	streamWindow  = drainBytes
)

// httpServer is the HTTP server of the APIs. The library's, whose place it takes (door), has the bounds of a kube-apiserver: a
// megabyte of headers, which take forty in memory where they are compressed, 256 KiB for each frame, and no end for a client
// that does not read what net/http itself answers.
//
// Frames of HTTP/2 are counted, and net/http takes no connection of TLS but its own. So server does the handshakes and speaks
// HTTP/1, and hands connections of HTTP/2 over to framed, which takes them for unencrypted.
type httpServer struct {
	server, framed *http.Server
	listener       net.Listener
	handed         handedOver
	door           *door
	certificate    dynamiccertificates.CertKeyContentProvider
	certificates   *dynamiccertificates.DynamicServingCertificateController
	isProxy        func(*tls.ConnectionState) bool
	grace          time.Duration // for requests in flight once the door is closed
	log            *slog.Logger
}

// newHTTPServer listens with a certificate, and asks clients for one if there are authorities of them. isProxy tells the connections
// of front proxies, which are trusted: one client's request must not end the connection that it shares with all others.
func newHTTPServer(listener net.Listener, cfg Config, certificate dynamiccertificates.CertKeyContentProvider, clients dynamiccertificates.CAContentProvider,
	isProxy func(*tls.ConnectionState) bool, logger *slog.Logger) *httpServer {
	static := tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if clients != nil {
		static.ClientAuth = tls.RequestClientCert // a client may have a token instead
		static.VerifyConnection = func(c tls.ConnectionState) error { return verifyClient(c.PeerCertificates, clients) }
	}
	s := &httpServer{
		server: newBoundedServer(cfg, logger), framed: newBoundedServer(cfg, logger),
		listener: listener, handed: handedOver{newDoor(listener.Addr()), make(chan *framedConn)}, door: newDoor(listener.Addr()),
		certificate: certificate, isProxy: isProxy, grace: cfg.RequestTimeout, log: logger,
		certificates: dynamiccertificates.NewDynamicServingCertificateController(static.Clone(), clients, certificate, nil, nil),
	}
	certificate.AddListener(s.certificates)
	if clients != nil {
		clients.AddListener(s.certificates)
	}
	static.GetConfigForClient = s.certificates.GetConfigForClient
	s.server.TLSConfig = &static
	s.server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": s.handOver}
	s.framed.Protocols = new(http.Protocols)
	s.framed.Protocols.SetUnencryptedHTTP2(true)
	s.framed.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, framedKey{}, c)
	}
	return s
}

func newBoundedServer(cfg Config, logger *slog.Logger) *http.Server {
	patience := 2 * cfg.RequestTimeout
	return &http.Server{
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout, // of a body that net/http itself reads; drainBody has another one
		WriteTimeout:      patience,
		IdleTimeout:       idleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame, WriteByteTimeout: patience,
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: maxStreams * streamWindow,
		},
		DisableGeneralOptionsHandler: true, // it passes by the limits
		ErrorLog:                     log.New(httpErrors{logger}, "", 0),
	}
}

// verifyClient refuses a certificate of a client that none of the authorities has signed. The authenticator would verify it
// for each request.
func verifyClient(chain []*x509.Certificate, authorities dynamiccertificates.CAContentProvider) error {
	if len(chain) == 0 {
		return nil
	}
	options, known := authorities.VerifyOptions()
	if !known {
		return errors.New("no authority of clients is known yet")
	}
	return mutualtls.Verify(chain, options)
}

// handOver has framed serve a connection of HTTP/2, and returns when that is closed.
func (s *httpServer) handOver(_ *http.Server, conn *tls.Conn, _ http.Handler) {
	member := conn.NetConn().(*connlimit.Member)
	c := &framedConn{Conn: conn, member: member, tls: conn.ConnectionState(), streams: connlimit.NewStreams(member, true), closed: make(chan struct{})}
	if s.isProxy(&c.tls) {
		member.Trust()
	}
	select {
	case s.handed.conns <- c:
		<-c.closed
	case <-s.handed.closed:
	}
}

// handedOver is the listener of connections of HTTP/2.
type handedOver struct {
	*door
	conns chan *framedConn
}

// Accept implements net.Listener.
func (h handedOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// framedConn is a connection of HTTP/2 whose frames are counted. It hides the TLS connection below, because net/http takes HTTP/2
// over TLS from a *tls.Conn alone.
type framedConn struct {
	net.Conn
	member  *connlimit.Member
	tls     tls.ConnectionState
	streams *connlimit.Streams
	once    sync.Once
	closed  chan struct{}
}

type framedKey struct{}

// withTLS tells the handlers what framed does not know.
func withTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = &r.Context().Value(framedKey{}).(*framedConn).tls
		next.ServeHTTP(w, r)
	})
}

// Close implements net.Conn.
func (c *framedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

var errFrames = errors.New("the client has sent too much that is not answered yet")

// Read implements net.Conn.
func (c *framedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.streams.Received(b[:n]) {
		_ = c.member.Close() // a write may hold the lock of the TLS connection
		return 0, errFrames
	}
	return n, err
}

// Write implements net.Conn.
func (c *framedConn) Write(b []byte) (int, error) {
	c.streams.Sent(b)
	return c.Conn.Write(b)
}

// httpErrors logs the errors of net/http. Those of clients are no fault of the server.
type httpErrors struct{ logger *slog.Logger }

// Write implements io.Writer.
func (e httpErrors) Write(text []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.Contains(text, []byte("panic serving")) || bytes.Contains(text, []byte("Accept error")) {
		level = slog.LevelError
	}
	e.logger.Log(context.Background(), level, string(bytes.TrimSpace(text)))
	return len(text), nil
}

// serve serves a handler until the door is closed, and then lets the requests in flight end. wait waits for that. failed is
// called if serving ends before.
func (s *httpServer) serve(handler http.Handler, failed func()) (wait func() error) {
	s.server.Handler, s.framed.Handler = handler, withTLS(handler)
	ctx, stop := context.WithCancel(context.Background())
	if runner, ok := s.certificate.(dynamiccertificates.ControllerRunner); ok {
		go runner.Run(ctx, 1)
	}
	if err := s.certificates.RunOnce(); err != nil {
		s.log.Warn("the metrics APIs cannot use their certificate yet; no client can connect", "error", err)
	}
	go s.certificates.Run(1, ctx.Done())
	served, ended := make(chan error, 1), make(chan error, 1)
	go func() { _ = s.framed.Serve(s.handed) }() // until it is shut down
	go func() {
		served <- s.server.Serve(tls.NewListener(s.listener, s.server.TLSConfig))
		failed()
	}()
	go func() {
		defer stop()
		<-s.door.closed
		s.shutDown()
		ended <- <-served
	}()
	return func() error {
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving ended: %w", err)
		}
		return nil
	}
}

// shutDown lets the requests in flight end, for a while. It runs beside the library, which waits for them without an end.
func (s *httpServer) shutDown() {
	grace, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	var ending sync.WaitGroup
	for _, server := range []*http.Server{s.server, s.framed} {
		ending.Go(func() {
			if server.Shutdown(grace) != nil {
				_ = server.Close()
			}
		})
	}
	ending.Wait()
}

// door is the listener of the library's HTTP server. It accepts no connection, and the library closes it when requests are no
// longer accepted: that is when httpServer shuts down.
type door struct {
	addr   net.Addr
	closed chan struct{}
	close  func()
}

func newDoor(addr net.Addr) *door {
	d := &door{addr: addr, closed: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closed) })
	return d
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.close()
	return nil
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return d.addr }
