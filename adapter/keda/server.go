package keda

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/mutualtls"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Parts are what the server stands on.
type Parts struct {
	Source Source
	// Ready reports whether the store is restored and the cluster read, and what is awaited.
	Ready  func() (bool, string)
	Logger *slog.Logger
}

// Server is the port of the external scaler.
type Server struct {
	listener *connlimit.Listener
	grpc     *grpc.Server
	health   *health.Server
	secured  *mutualtls.Certificates // nil: plain text
	watcher  *watcher
	count    *counters
	patience *patience
	// stopPatience is the constant outside of tests.
	stopPatience time.Duration

	log *slog.Logger
}

// Limits of clients. An operator holds one connection for each address and TLS settings, with two streams
// a trigger. A client waits silently at the limit of a connection's streams, so that is no lower than the
// limit of all streams, which is an error.
const (
	mostStreams        = 1 << 15
	maxConnections     = 2048
	maxConnectionsEach = 512
	maxHeader          = 32 << 10
	pingEvery          = 20 * time.Second // the operator sends no pings of its own
	pingPatience       = 10 * time.Second
	maxMessage         = 64 << 10
	window             = 64 << 10 // of a stream and of a connection; grpc would else raise both to 16 MiB
	stopPatience       = 2 * time.Second
)

// Listen binds the address.
func Listen(cfg Config, parts Parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("keda: %w", err)
	}
	s := &Server{watcher: newWatcher(parts.Source), count: newCounters(), patience: newPatience(),
		stopPatience: stopPatience, log: parts.Logger, health: health.NewServer()}
	limits := connlimit.Limits{Max: maxConnections, MaxEach: maxConnectionsEach, WriteStall: pingPatience}
	if !cfg.Insecure {
		limits.Keep, limits.Handshake = connlimit.Forever, connlimit.HandshakeTimeout
		s.patience.mayAsk = s.mayAsk
	}
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingPatience}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(connlimit.HandshakeTimeout), grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(mostStreams),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.InTapHandle(s.tap), grpc.ChainUnaryInterceptor(s.count.unary,
			s.patience.unary), grpc.ChainStreamInterceptor(s.count.stream, s.patience.stream),
	}
	if !cfg.Insecure {
		var err error
		if s.secured, err = mutualtls.New(mutualtls.Config{
			CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, CAFile: cfg.CAFile, Names: cfg.ClientNames,
			Wanted: "one of the clients that may connect (" + strings.Join(cfg.ClientNames, ", ") + ")", Which: "of KEDA",
		}, parts.Logger); err != nil {
			return nil, fmt.Errorf("keda: %w", err)
		}
		options = append(options, grpc.Creds(credentials.NewTLS(s.secured.TLS())))
	}
	listener, err := connlimit.Listen(cfg.Address, "keda", limits, parts.Logger)
	if err != nil {
		return nil, err
	}
	s.listener, s.grpc = listener, grpc.NewServer(options...)
	externalscaler.RegisterExternalScalerServer(s.grpc, &scaler{
		source: parts.Source, ready: parts.Ready, watcher: s.watcher, count: s.count,
	})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	return s, nil
}

// tap is a tap.ServerInHandle. In plain text, where anyone may name any namespace, a request proves its connection.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if from, ok := peer.FromContext(ctx); ok && s.secured == nil {
		s.listener.Prove(from.Addr.String())
	}
	return s.patience.tap(ctx, info)
}

// mayAsk proves the connection of a request, which no stranger sends. The operator has a connection for each spelling of an
// address and keeps it, and the spellings are the authors' to choose: a namespace leaves connections to others.
func (s *Server) mayAsk(ctx context.Context, namespace string) error {
	from, ok := peer.FromContext(ctx)
	if !ok || s.listener.ProveFor(from.Addr.String(), namespace) {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "triggers of namespace %q have %d connections, one for each spelling of their scalerAddress, "+
		"and some are left to others; write one address in all", namespace, s.listener.Owned(namespace))
}

// Addr is the address, with the actual port if the configuration says 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close closes the listener if Run is not called.
func (s *Server) Close() { _ = s.listener.Close() }

// Run serves until ctx ends, then ends all streams and returns.
func (s *Server) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.watcher.run(ctx) })
	running.Go(func() {
		<-ctx.Done()
		s.health.Shutdown()
		s.end()
	})
	s.log.Info("serving KEDA's external scaler", "address", s.Addr().String(), "tls", s.secured != nil)
	err := s.grpc.Serve(s.listener)
	if ctx.Err() != nil {
		running.Wait()
		return nil
	}
	return fmt.Errorf("keda: %w", err)
}

// end waits until the requests in flight have their answers.
func (s *Server) end() {
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(s.stopPatience):
		s.grpc.Stop()
		<-ended
	}
}

func method(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }
