package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/valyala/fasthttp"
)

// Resources knows the cluster's resources.
type Resources interface {
	// Canonical returns the group-resource of a resource as people spell it ("pods", "ingresses",
	// "ingresses.networking.k8s.io"), and whether its objects are in namespaces. It knows
	// "namespaces". The error names the resource. It is metric.ErrNotFound if no resource has the
	// name; any other error says what else is wrong, for example that the name is ambiguous.
	Canonical(resource string) (canonical string, namespaced bool, err error)
}

// Parts are the parts of Sluice that the server uses. push.Parts documents them.
type Parts struct {
	// NewApplier makes an Applier that is online.
	NewApplier func() Applier
	Resources  Resources
	// Syncer may be nil: nothing is stored, and ?sync=true is rejected.
	Syncer Syncer
	// Replicas may be nil: there are no others.
	Replicas Replicas
	Ledger   *ledger.Ledger
	Logger   *slog.Logger
	// Listener is used instead of Config.Address, unless nil. Its connections must have CloseWrite.
	Listener net.Listener
	// Worded rewrites an error about a file in the words of the configuration; nil: errors name
	// fields.
	Worded func(error) error
	// Full names the setting that limits series where no limit of Trust does; may be empty.
	Full string
	// Freshen applies the data that the sockets of StatsD hold: a push comes after what was sent
	// before. It may be nil.
	Freshen func()
	// KindOf returns the kind of the series that conflicts with a sample (metric.NoKind: there is none any
	// more). It may be nil.
	KindOf func(*metric.Sample) metric.Kind

	// The fields below are nil if senders are not checked, as without a cluster.

	// Senders finds the sender of an address.
	Senders receiver.Senders
	// Trust decides what a sender may do.
	Trust Trust
	// Authority authenticates tokens and authorizes accounts.
	Authority credential.Authority
	// Pods finds the pods that tokens are bound to.
	Pods Pods
	// Pending holds the samples that are neither applied nor rejected yet.
	Pending *pending.Buffer

	// Record and Rejections remember senders and rejected samples for lists; may be nil.
	Record     *record.Senders
	Rejections *record.Rejections
}

// Trust decides which objects a sender may push, read and delete. Pushed samples reach it behind
// the Applier.
type Trust interface {
	// May reports whether a sender may push, read or delete the series of an object; the name "*"
	// is every object of the resource in the namespace. The reason is metric.Applied (it may),
	// metric.Identity (it may not) or metric.Pending (not known yet), with an explanation. The
	// right is the one that an account would need, if any would help.
	May(*metric.Sender, metric.Verb, metric.Object) (metric.Reason, string, metric.Right)
	// Needs returns the right that an account would need for a sample to be applied.
	Needs(*metric.Sample) metric.Right
	// Listed reports whether the configuration lists the sender, as a forwarder or a writer.
	Listed(*metric.Sender) bool
	// Explain says why a sample was rejected for its sender, or is pending.
	Explain(*metric.Sample) string
	// ExplainEnded says of a pending sample that its pod has ended. Empty: the pod may still become
	// known.
	ExplainEnded(*metric.Sample) string
	// ExplainLimit says which limit rejects a sample, and which series use it up. Empty: no limit
	// of a namespace or pod, so the limit is that of the process.
	ExplainLimit(*metric.Sample) string
}

// Server serves Routes over HTTP. It owns its socket from New on; Run closes it.
type Server struct {
	cfg           Config
	resources     Resources
	syncer        Syncer
	replicas      Replicas      // nil: there are no others
	stopping      chan struct{} // closed when Run begins to stop
	account       *ledger.Account
	senders       receiver.Senders
	trust         Trust
	pods          Pods
	full          string
	kindOf        func(*metric.Sample) metric.Kind // may be nil
	freshen       func()                           // may be nil
	Authenticator *credential.Authenticator        // nil: no credentials are checked
	// challenges are sent to clients without a credential.
	challenges   []string
	pending      *pending.Buffer
	Certificates *listener.Certificates // nil: plain HTTP
	checksHosts  bool
	log          *slog.Logger

	Router   *Router
	http     *fasthttp.Server
	listener *listener.Listener
	otlp     net.Addr // nil: there is no second address
	appliers *appliers
	budget   body.Budget
	heavy    heavy // places of requests at work that take much memory
	// deletions is the place of one deletion at a time.
	deletions *fair.Turns[string]
	recorder  recorder
	requests  sync.Pool // of *Request
	metrics   *metrics

	// life ends when requests in flight may wait no longer.
	life context.Context
	end  context.CancelFunc
}

// ErrOTLPAddress is wrapped by the error about OTLPAddress.
var ErrOTLPAddress = errors.New("cannot listen for OTLP over HTTP")

// New binds the address. The caller must call Run, if only with a context that has ended. cfg must
// be valid.
func New(cfg Config, parts Parts, routes []*Route) (*Server, error) {
	authenticator, err := newAuthenticator(cfg, parts)
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	certificates, err := listener.NewCertificates(listener.TLSFiles{
		Cert: cfg.TLSCertFile, Key: cfg.TLSKeyFile, ClientCA: cfg.TLSClientCAFile, ClientAuth: cfg.TLSClientAuth,
	}, parts.Logger, parts.Worded)
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	ln := parts.Listener
	if ln == nil {
		config := connlimit.ListenConfig(cfg.ReceiveBuffer)
		if ln, err = config.Listen(context.Background(), "tcp", cfg.Address); err != nil {
			return nil, fmt.Errorf("push: cannot listen for HTTP on %s (address): %w", cfg.Address, err)
		}
	}
	var otlp net.Addr
	if cfg.OTLPAddress != "" {
		second, err := net.Listen("tcp", cfg.OTLPAddress)
		if err != nil {
			_ = ln.Close()
			return nil, fmt.Errorf("push: %w on %s: %w", ErrOTLPAddress, cfg.OTLPAddress, err)
		}
		ln, otlp = listener.Join(ln, second), second.Addr()
	}
	s := &Server{
		otlp: otlp, cfg: cfg, resources: parts.Resources, syncer: parts.Syncer, replicas: parts.Replicas, Router: NewRouter(routes),
		account: parts.Ledger.Open("http"), log: parts.Logger, metrics: newMetrics(),
		appliers: newAppliers(parts.NewApplier, max(16, 4*runtime.GOMAXPROCS(0))),
		budget:   body.Budget{Max: cfg.MaxBufferedBytes, One: int64(cfg.MaxBodyBytes + cfg.MaxDecompressed())}, heavy: newHeavy(),
		deletions: fair.NewTurns[string](1, 1),
		recorder:  recorder{senders: parts.Record, rejections: parts.Rejections},
		stopping:  make(chan struct{}), pods: parts.Pods, full: parts.Full, kindOf: parts.KindOf, freshen: parts.Freshen,
		Authenticator: authenticator, challenges: challengesOf(authenticator), Certificates: certificates,
		senders: parts.Senders, trust: parts.Trust, pending: parts.Pending,
		checksHosts: checksHosts(ln.Addr(), parts.Trust != nil),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.requests.New = func() any { return &Request{server: s, origin: receiver.SenderResolver{Senders: s.senders}} }
	limits := connlimit.Limits{Max: cfg.MaxConnections, MaxEach: cfg.MaxConnsPerIP, Keep: cfg.WriteTimeout}
	s.listener = listener.New(ln, listener.Options{Name: "http", Limits: limits, Certificates: certificates,
		ReadTimeout: cfg.ReadTimeout, Log: s.log})
	s.metrics.listener = s.listener
	if certificates != nil {
		s.metrics.expires = certificates.Expires.Load
	}
	s.http = s.newHTTP()
	return s, nil
}

// newHTTP configures fasthttp.
//
// MaxRequestBodySize is one byte and bodies are streamed, so that ReadBody alone decides how much
// is read and which body is incomplete. The listener limits connections.
func (s *Server) newHTTP() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:        s.serve,
		ErrorHandler:   s.serveError,
		ExpectHandler:  s.expect,
		HeaderReceived: dropCrowd,
		Logger:         &libraryLog{log: s.log},
		Name:           "sluice",
		Concurrency: 2*s.cfg.MaxConnections +
			1024, // not reached: the listener limits, but some that yielded have to end yet
		ReadBufferSize:               s.cfg.MaxHeaderBytes,
		ReadTimeout:                  s.cfg.ReadTimeout,
		WriteTimeout:                 s.cfg.WriteTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		StreamRequestBody:            true,
		MaxRequestBodySize:           1,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true, // keeps bytes of a client out of errors
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
	}
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// OTLPAddr returns the address at OTLPAddress; nil: there is none.
func (s *Server) OTLPAddr() net.Addr { return s.otlp }

// A Door takes Calls beside HTTP.
type Door interface {
	// Run is as Server.Run. It may leave calls in flight that wait for longer than ShutdownTimeout.
	Run(context.Context) error
	// Wait waits for the calls that Run left.
	Wait()
}

// Run serves until ctx ends, lets requests in flight finish within ShutdownTimeout, and returns
// nil. It returns an error if serving ended by itself. Run may be called once. A door, unless nil, runs
// as long.
func (s *Server) Run(ctx context.Context, beside Door) error {
	defer s.keep()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served, door := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	if beside != nil {
		go func() { door <- beside.Run(ctx); close(door) }()
	}
	var err error
	select {
	case <-ctx.Done():
		s.stop(served)
	case err = <-served:
		err = fmt.Errorf("push: serving ended: %w", errors.Join(err, errServingEnded))
		_ = s.listener.Close()
		s.listener.Abort()
	case err = <-door:
		s.stop(served)
	}
	cancel()
	if beside != nil {
		err = errors.Join(err, <-door)
	}
	s.end()
	if beside != nil {
		beside.Wait()
	}
	s.appliers.close()
	return err
}

// keep watches the files of credentials and certificates until the returned function is called,
// which waits for the goroutines.
func (s *Server) keep() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	if s.Authenticator != nil {
		following.Go(func() { s.Authenticator.Run(ctx) })
	}
	if s.Certificates != nil {
		following.Go(func() { s.Certificates.Follow(ctx) })
	}
	return func() {
		stop()
		following.Wait()
	}
}

var errServingEnded = errors.New("the socket was closed from outside")

// stop closes the socket, waits for the requests in flight, and aborts those that take too long.
func (s *Server) stop(served <-chan error) {
	// Shutdown does not stop accepting before Serve has begun to accept, so the socket is closed
	// here.
	_ = s.listener.Close()
	close(s.stopping)
	grace, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
	defer cancel()
	<-served
	s.listener.AbortSilent()
	if err := s.http.ShutdownWithContext(grace); err == nil {
		return
	}
	s.end()
	n := s.listener.Abort()
	s.log.Warn("push: connections were aborted at shutdown", "connections", n, "after", s.cfg.ShutdownTimeout)
	for deadline := time.Now().Add(time.Second); s.listener.Connections() > 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}

// Account counts the server's samples.
func (s *Server) Account() *ledger.Account { return s.account }

// Connections returns how many connections are open.
func (s *Server) Connections() int { return s.listener.Connections() }

// Reserve takes memory from the budget of all bodies, for the tests of protocols, and reports whether there was enough. A
// negative n returns it.
func (s *Server) Reserve(n int64) bool { return s.budget.Take(n) }

// Reserved returns how much of the budget is taken.
func (s *Server) Reserved() int64 { return s.budget.Held.Load() }
