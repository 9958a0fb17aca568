package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Server serves the metrics APIs. New binds its address, Run serves.
type Server struct {
	listener    *connlimit.Listener
	api         *genericapiserver.GenericAPIServer
	http        *httpServer
	access      access
	ending      chan struct{}           // closed when the server begins to end
	readyChecks []func() (bool, string) // checked by Ready; nil: always ready
	metrics     *metrics
	vain        *vainQueries
	uses        *uses
	usage       Usage // nil: metrics.k8s.io is not served
	routes      bool  // there are other providers of external metrics
	logger      *slog.Logger
	certificate dynamiccertificates.CertKeyContentProvider
}

// New binds the address and prepares everything, so Run fails for no reason that could be known
// before. It sends nothing to the cluster's API server. From now on the Kubernetes libraries log to
// the logger, process-wide.
func New(cfg Config, parts Parts) (*Server, error) {
	if err := errors.Join(cfg.Validate(), parts.validate()); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	routeKlog(parts.Logger)
	who := anonymousAccess()
	if parts.API != nil {
		var err error
		if who, err = delegatedAccess(cfg, parts.API, parts.Logger); err != nil {
			return nil, fmt.Errorf("adapter: %w", err)
		}
	}
	s, err := prepare(cfg, parts, who)
	if err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	s.warnIfOpen()
	return s, nil
}

func prepare(cfg Config, parts Parts, who access) (*Server, error) {
	certificate, err := servingCertificate(cfg, parts.Logger)
	if err != nil {
		return nil, err
	}
	vain := newVainQueries(parts.Logger)
	asked := newUses()
	groups := groupsOf(cfg, parts, vain, asked, operandRights{who.authorizer})
	asked.serve(groups)
	counts := newMetrics(groups)
	listener, err := listen(cfg, parts.Logger)
	if err != nil {
		return nil, err
	}
	s := &Server{
		listener:    listener,
		access:      who,
		ending:      make(chan struct{}),
		readyChecks: []func() (bool, string){parts.Ready, who.ready},
		metrics:     counts,
		vain:        vain,
		uses:        asked,
		usage:       parts.Usage,
		routes:      parts.Routes != nil,
		logger:      parts.Logger,
		certificate: certificate,
	}
	s.api, err = s.newAPIServer(cfg, groups, certificate)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return s, nil
}

// Addr returns the address, with the actual port if the configuration says 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// EndNamespace makes the API server be asked anew about everybody's rights in a namespace that was deleted.
func (s *Server) EndNamespace(namespace string) {
	if s.access.endNamespace != nil {
		s.access.endNamespace(namespace)
	}
}

// Run serves until ctx ends and Config.ShutdownDelay has passed, then answers the requests in
// flight and returns. It is called once.
func (s *Server) Run(ctx context.Context) error {
	s.logger.Info("serving the metrics APIs", "address", s.Addr().String())
	defer s.keepAccess(ctx)()
	defer context.AfterFunc(ctx, func() { close(s.ending) })()
	running, fail := context.WithCancel(ctx)
	defer fail()
	api := s.api.PrepareRun()
	wait := s.http.serve(s.api.Handler, fail)
	err := api.RunWithContext(running)
	_ = s.http.door.Close() // it is, unless there was an error
	if err = errors.Join(err, wait()); err != nil {
		return fmt.Errorf("adapter: %w", err)
	}
	return nil
}

// keepAccess runs access.run until the returned function is called, which waits for its end. That is later than the end of
// ctx, because clients must be authenticated until the last answer.
func (s *Server) keepAccess(ctx context.Context) (end func()) {
	if s.access.run == nil {
		return func() {}
	}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { s.access.run(own) })
	return func() {
		stop()
		running.Wait()
	}
}

// warnIfOpen warns if other machines can read without authentication.
func (s *Server) warnIfOpen() {
	if !s.access.anonymous() {
		return
	}
	if tcp, ok := s.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		s.logger.Warn("the metrics APIs need no authentication, and other machines can reach their address",
			"address", s.Addr().String())
	}
}

// handshakeTimeout is raised by tests on real sockets, which may take any time.
var handshakeTimeout = connlimit.HandshakeTimeout

func listen(cfg Config, logger *slog.Logger) (*connlimit.Listener, error) {
	limits := connlimit.Limits{Max: cfg.MaxConnections, MaxEach: cfg.MaxConnections / eachOfConnections, Handshake: handshakeTimeout, MaxReceived: maxReceived}
	return connlimit.Listen(cfg.Address, "api", limits, logger)
}

// eachOfConnections is the share of Config.MaxConnections that one address has: an API server sends many requests over few
// connections.
//
// maxStreams is the limit of requests on a connection of HTTP/2, beyond which an API server opens another one. A request
// takes some 15 KiB until its answer is read, so all together take 250 MB; headers.go bounds the headers of those in work.
//
// maxReceived bounds headers that are not complete and, over HTTP/2, all of open requests. It is of bytes on the wire: in memory,
// a header of HTTP/2 that has a byte there takes twenty to forty.
const (
	eachOfConnections = 8
	maxStreams        = 8
	maxReceived       = 4 << 20
)
