package operations

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/internal/connlimit"
)

// Server answers /livez, /readyz and /metrics, and at / with an index of them.
type Server struct {
	listener *connlimit.Listener
	http     http.Server
}

// The limits are far above what probes and scrapers need. The last three bound headers, which take up to 25 times their bytes:
// while they come, beyond some KiB of each connection, and while they are answered.
const (
	maxConnections     = 512
	maxConnectionsEach = 64

	maxReceived, freeReceived = 1 << 20, 2 << 10
	headerMemory              = 24 << 10
)

// Listen binds the port. Requests are answered once Run runs.
func Listen(cfg Config, checks []Check, gather prometheus.Gatherer, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("operations: %w", err)
	}
	limits := connlimit.Limits{Max: maxConnections, MaxEach: maxConnectionsEach, MaxReceived: maxReceived, FreeReceived: freeReceived}
	limiter := connlimit.New("operations", limits, log)
	answer := connlimit.BoundHeaders(headerMemory, guard(listener.Addr(), routes(limiter, checks, gather, log)))
	return &Server{
		listener: &connlimit.Listener{Listener: listener, Limiter: limiter},
		http: http.Server{
			Handler:        limiter.Requests(answer),
			ReadTimeout:    5 * time.Second, // also of a body, which net/http awaits before it answers
			WriteTimeout:   30 * time.Second,
			IdleTimeout:    20 * time.Second, // longer than the usual 15 s between two scrapes, which then share a connection
			MaxHeaderBytes: 8 << 10,          // a bearer token of a scraper has some kB; net/http adds 4 KiB

			DisableGeneralOptionsHandler: true, // it passes by the limits
			ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}, nil
}

// Addr returns the bound address, with the port chosen if the configuration has 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Register registers the port's own metrics.
func (s *Server) Register(r prometheus.Registerer) error { return r.Register(s.listener.Limiter) }

// Run serves until ctx ends, then lets the requests in flight finish for at most a second. It
// returns an error only if serving itself failed.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("operations on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s.http.Shutdown(finish) != nil {
		_ = s.http.Close()
	}
	<-served
	return nil
}

// guard rejects requests with a foreign Host on loopback: a web page could reach the port by DNS
// rebinding. net/http takes the host of an absolute target for Host.
func guard(on net.Addr, next http.Handler) http.Handler {
	if tcp, ok := on.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !config.IsThisMachine(r.Host) {
			http.Error(w, "Host must be localhost or an IP address: a web page could reach this port by DNS rebinding",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// index describes the port to people.
const index = `Sluice: operations

/livez     ok while the process runs
/readyz    whether queries are answered, and what is missing
/metrics   Sluice's own metrics, for Prometheus
`

func routes(limiter *connlimit.Limiter, checks []Check, gather prometheus.Gatherer, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(index))
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", serveReadiness(checks))
	mux.Handle("GET /metrics", limitPages(limiter, promhttp.HandlerFor(newPacedGatherer(gather), promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	})))
	return mux
}
