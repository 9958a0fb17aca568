package adapter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

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
type httpServer struct {
	server       http.Server
	listener     net.Listener
	door         *door
	certificate  dynamiccertificates.CertKeyContentProvider
	certificates *dynamiccertificates.DynamicServingCertificateController
	grace        time.Duration // for requests in flight once the door is closed
}

// newHTTPServer listens with a certificate, and asks clients for one if there are authorities of them.
func newHTTPServer(listener net.Listener, cfg Config, certificate dynamiccertificates.CertKeyContentProvider, clients dynamiccertificates.CAContentProvider, logger *slog.Logger) *httpServer {
	static := tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if clients != nil {
		static.ClientAuth = tls.RequestClientCert // the authenticator verifies it; a client may have a token instead
	}
	s := &httpServer{
		listener: listener, door: newDoor(listener.Addr()), certificate: certificate, grace: cfg.RequestTimeout,
		certificates: dynamiccertificates.NewDynamicServingCertificateController(static.Clone(), clients, certificate, nil, nil),
	}
	certificate.AddListener(s.certificates)
	if clients != nil {
		clients.AddListener(s.certificates)
	}
	static.GetConfigForClient = s.certificates.GetConfigForClient
	s.server = http.Server{
		TLSConfig:         &static,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout, // of a body that net/http itself reads; drainBody has another one
		WriteTimeout:      2 * cfg.RequestTimeout,
		IdleTimeout:       idleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: maxStreams * streamWindow,
		},
		DisableGeneralOptionsHandler: true, // it passes by the limits
		ErrorLog:                     slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s
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
		s.server.ErrorLog.Print(err) // it is tried again; until then no handshake succeeds
	}
	go s.certificates.Run(1, ctx.Done())
	ended := make(chan error, 1)
	go func() {
		ended <- s.server.Serve(tls.NewListener(s.listener, s.server.TLSConfig))
		failed()
	}()
	return func() error {
		defer stop()
		<-s.door.closed
		grace, cancel := context.WithTimeout(context.Background(), s.grace)
		defer cancel()
		if s.server.Shutdown(grace) != nil {
			_ = s.server.Close()
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving ended: %w", err)
		}
		return nil
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
