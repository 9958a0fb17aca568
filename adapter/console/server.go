package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
)

// Limits of connections: pages with their streams are a browser's, which opens at most six.
const (
	maxConnections     = 256
	maxConnectionsEach = 128 // a port-forward brings all from one address
	maxStreams         = 64

	maxReceived  = 2 << 20  // headers that are not complete, and forms, beyond 8 KiB of each connection
	headerMemory = 64 << 10 // of one request: a browser may send cookies of others on this machine
)

// Server serves the console.
type Server struct {
	parts    Parts
	loopback bool
	listener *connlimit.Listener
	http     http.Server
	history  *history
	streams  *fair.Room[netip.Prefix, int]
	own      []prometheus.Collector
	// ended is closed when the server stops, which ends all streams.
	ended chan struct{}
}

// New opens the port. Without Access, the configuration must have a loopback address.
func New(cfg Config, parts Parts) (*Server, error) {
	if parts.Access == nil && !cfg.Loopback() {
		return nil, errors.New("console: an address that isn't loopback needs a cluster to review tokens")
	}
	if cfg.Loopback() {
		parts.Access, parts.TLS = nil, nil
	}
	listener, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	s := &Server{parts: parts, loopback: cfg.Loopback(), streams: fair.NewRoom[netip.Prefix](maxStreams), ended: make(chan struct{})}
	s.history = newHistory(parts.Source, parts.Begin)
	s.history.past, s.history.answers = parts.Past, parts.Answers
	s.history.receivers = func() []Receiver { return parts.Health().Receivers }
	limits := connlimit.Limits{Max: maxConnections, MaxEach: maxConnectionsEach, MaxReceived: maxReceived}
	if parts.TLS != nil {
		limits.Handshake = connlimit.HandshakeTimeout
	}
	limiter := connlimit.New("console", limits, parts.Logger)
	s.listener = &connlimit.Listener{Listener: listener, Limiter: limiter}
	s.http = http.Server{
		Handler:        limiter.Requests(connlimit.BoundHeaders(headerMemory, s.guard(s.routes()))),
		ReadTimeout:    5 * time.Second, // also of a body, which net/http awaits before it answers
		WriteTimeout:   writeTimeout,    // a stream renews it
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 32 << 10, // a token has some kB

		DisableGeneralOptionsHandler: true, // it passes by the limits
		ErrorLog:                     slog.NewLogLogger(parts.Logger.Handler(), slog.LevelDebug),
	}
	s.own = []prometheus.Collector{limiter,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_console_streams",
			Help: "Pages of the console that follow changes."}, func() float64 { return float64(s.streams.Held()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_console_recorded_values",
			Help: "Values that the console records every second for its plots."},
			func() float64 { return float64(s.history.size()) }),
	}
	return s, nil
}

// writeTimeout bounds the sending of one page, or of one part of a stream.
const writeTimeout = 20 * time.Second

// Addr is the bound address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Register registers the console's own metrics.
func (s *Server) Register(r prometheus.Registerer) error {
	var faults []error
	for _, collector := range s.own {
		faults = append(faults, r.Register(collector))
	}
	return errors.Join(faults...)
}

// EndNamespace forgets the values of a namespace that was deleted.
func (s *Server) EndNamespace(namespace string) { s.history.endNamespace(namespace) }

// Run serves until ctx ends. Streams end at once, other requests have a second.
func (s *Server) Run(ctx context.Context) error {
	sampling := make(chan struct{})
	go func() {
		defer close(sampling)
		s.history.run(ctx)
	}()
	served := make(chan error, 1)
	var listener net.Listener = s.listener
	if s.parts.TLS != nil {
		listener = tls.NewListener(listener, s.parts.TLS)
	}
	go func() { served <- s.http.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("console on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	close(s.ended)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s.http.Shutdown(finish) != nil {
		_ = s.http.Close()
	}
	<-served
	<-sampling
	return nil
}

// Close closes the port if Run was never called.
func (s *Server) Close() error { return s.listener.Close() }

// healthContent is the page of the process: the law of accounting, drawn.
type healthContent struct {
	Health
	Ready     bool
	Laws      []law
	Recorded  int
	Following int
	Groups    []GroupUse
}

// law is the account of a receiver: received = applied + rejected + pending.
type law struct {
	Receiver
	Refused uint64
	// Difference is received without applied, rejected and pending. It isn't 0 for a moment while
	// samples come in, because the figures are read one after the other.
	Difference int64
	Parts      []bar
}

// bar is a part of a bar, in percent.
type bar struct{ Class, X, Width string }

func (s *Server) health(context.Context, *request) (any, error) {
	c := &healthContent{Health: s.parts.Health(), Ready: true,
		Recorded: s.history.size(), Following: s.streams.Held()}
	if s.parts.Groups != nil {
		c.Groups = s.parts.Groups()
	}
	for _, check := range c.Checks {
		c.Ready = c.Ready && check.Ready
	}
	for _, receiver := range c.Receivers {
		c.Laws = append(c.Laws, lawOf(receiver))
	}
	return c, nil
}

// Failed reports whether a request was answered with an error.
func (u Use) Failed() bool { return u.Code >= http.StatusBadRequest }

func lawOf(receiver Receiver) law {
	l := law{Receiver: receiver}
	for _, count := range receiver.Rejected {
		l.Refused += count.Number
	}
	l.Difference = int64(receiver.Received - receiver.Applied - l.Refused - receiver.Pending)
	var before uint64
	for _, part := range []struct {
		class string
		n     uint64
	}{{"applied", receiver.Applied}, {"rejected", l.Refused}, {"pending", receiver.Pending}} {
		if part.n > 0 {
			l.Parts = append(l.Parts, bar{part.class, percent(before, receiver.Received), percent(part.n, receiver.Received)})
		}
		before += part.n
	}
	return l
}
