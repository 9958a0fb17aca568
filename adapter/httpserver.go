package adapter

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"golang.org/x/net/http2"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// The bounds of requests, beside maxHeader. A frame's memory is taken with its first nine bytes. A stream's window is what is
// read of a body, so that none is left over. A chain of certificates is kept as long as the connection.
const (
	headerTimeout = 32 * time.Second
	idleTimeout   = 90 * time.Second
	maxFrame      = 16 << 10
	streamWindow  = drainBytes
	maxChain      = 8
)

// httpServer is the HTTP server of the APIs. The library's, whose place it takes (door), has the bounds of a kube-apiserver: a
// megabyte of headers, which take forty in memory where they are compressed, 256 KiB for each frame, and no end for a client
// that does not read what net/http itself answers.
type httpServer struct {
	server       http.Server
	http2        http2.Server
	listener     net.Listener
	door         *door
	certificate  dynamiccertificates.CertKeyContentProvider
	certificates *dynamiccertificates.DynamicServingCertificateController
	grace        time.Duration // for requests in flight once the door is closed
	log          *slog.Logger
}

// newHTTPServer listens with a certificate, and asks clients for one if there are authorities of them.
func newHTTPServer(listener net.Listener, cfg Config, certificate dynamiccertificates.CertKeyContentProvider, clients dynamiccertificates.CAContentProvider, logger *slog.Logger) (*httpServer, error) {
	static := tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, VerifyConnection: boundChain}
	if clients != nil {
		static.ClientAuth = tls.RequestClientCert // the authenticator verifies it; a client may have a token instead
	}
	s := &httpServer{
		listener: listener, door: newDoor(listener.Addr()), certificate: certificate, grace: cfg.RequestTimeout, log: logger,
		certificates: dynamiccertificates.NewDynamicServingCertificateController(static.Clone(), clients, certificate, nil, nil),
	}
	certificate.AddListener(s.certificates)
	if clients != nil {
		clients.AddListener(s.certificates)
	}
	static.GetConfigForClient = s.certificates.GetConfigForClient
	patience := 2 * cfg.RequestTimeout
	s.server = http.Server{
		TLSConfig:         &static,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout, // of a body that net/http itself reads; drainBody has another one
		WriteTimeout:      patience,
		IdleTimeout:       idleTimeout,

		DisableGeneralOptionsHandler: true, // it passes by the limits
		ErrorLog:                     log.New(httpErrors{logger}, "", 0),
	}
	s.http2 = http2.Server{
		MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame, IdleTimeout: idleTimeout, WriteByteTimeout: patience,
		MaxUploadBufferPerStream: streamWindow, MaxUploadBufferPerConnection: maxStreams * streamWindow,
	}
	if err := http2.ConfigureServer(&s.server, &s.http2); err != nil {
		return nil, fmt.Errorf("configure HTTP/2: %w", err)
	}
	s.server.TLSNextProto[http2.NextProtoTLS] = s.serveHTTP2
	return s, nil
}

func boundChain(c tls.ConnectionState) error {
	if n := len(c.PeerCertificates); n > maxChain {
		return fmt.Errorf("the client sent %d certificates; must be at most %d", n, maxChain)
	}
	return nil
}

// serveHTTP2 serves a connection whose frames are counted.
func (s *httpServer) serveHTTP2(server *http.Server, conn *tls.Conn, handler http.Handler) {
	options := http2.ServeConnOpts{BaseConfig: server, Handler: handler}
	if base, ok := handler.(interface{ BaseContext() context.Context }); ok { // of net/http, for its HTTP/2 alone
		options.Context = base.BaseContext()
	}
	s.http2.ServeConn(&framedConn{conn, connlimit.NewStreams(conn.NetConn().(*connlimit.Member), true)}, &options)
}

// framedConn is a connection whose frames are counted.
type framedConn struct {
	*tls.Conn
	streams *connlimit.Streams
}

var errFrames = errors.New("the client has sent too much that is not answered yet")

// Read implements net.Conn.
func (c *framedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.streams.Received(b[:n]) {
		_ = c.NetConn().Close() // a write may hold the lock of the TLS connection
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
	s.server.Handler = handler
	ctx, stop := context.WithCancel(context.Background())
	if runner, ok := s.certificate.(dynamiccertificates.ControllerRunner); ok {
		go runner.Run(ctx, 1)
	}
	if err := s.certificates.RunOnce(); err != nil {
		s.log.Warn("the metrics APIs cannot use their certificate yet; no client can connect", "error", err)
	}
	go s.certificates.Run(1, ctx.Done())
	served, ended := make(chan error, 1), make(chan error, 1)
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
	if s.server.Shutdown(grace) != nil {
		_ = s.server.Close()
	}
}

// door is the listener of the library's HTTP server. It lets nobody in. The library closes it when requests are no longer
// accepted.
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
