package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/remotewrite"
	"github.com/valyala/fasthttp"
)

// Reader reads and deletes series. Errors are metric.ErrNotFound or metric.ErrInvalidQuery.
type Reader interface {
	Objects(metric.Query) ([]metric.Point, error)
	External(metric.Query) ([]metric.Point, error)
	// Delete removes the series that the query would read, and says how many. It goes by Asked.Name only.
	Delete(metric.Query) int
}

// Resources knows the cluster's resources.
type Resources interface {
	// Canonical turns a resource as people write it ("pods", "ingresses", "ingresses.networking.k8s.io")
	// into its group-resource, and says whether its objects are in namespaces. It knows "namespaces".
	// The error names the resource. It is a metric.ErrNotFound where there is none of that name; any other says what else is
	// wrong, for example that it is ambiguous.
	Canonical(resource string) (canonical string, namespaced bool, err error)
}

// Syncer waits until everything that was applied before the call is on disk.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Parts is what the server works on.
type Parts struct {
	// NewApplier makes an Applier that is not parked.
	NewApplier func() receiver.Applier
	Reader     Reader
	Resources  Resources
	// Syncer may be nil: nothing is stored, and ?sync=true is refused.
	Syncer Syncer
	// Groups keeps what is pushed in groups.
	Groups *group.Groups
	Ledger *ledger.Ledger
	Logger *slog.Logger
	// Build says which build this is, for GET /api/v1/status.
	Build map[string]string
	// Worded puts what is wrong with a file that was read again into the words of whoever set it; nil: the fields of Config are named.
	Worded func(error) error
	// Full says by which setting no more series may be, where none of the limits of Trust is the cause; may be empty.
	Full string

	// What follows is nil where nobody asks who sends, as without a cluster.

	// Senders knows who has an address.
	Senders receiver.Senders
	// Trust says what a sender may do.
	Trust Trust
	// Authority says whom tokens name, and what accounts were granted.
	Authority credential.Authority
	// Pods knows the pods that tokens are bound to.
	Pods Pods
	// Pending holds the samples that are neither applied nor refused yet.
	Pending *pending.Buffer
	// Alive says whether an object's values may be read.
	Alive func(metric.Object) bool
}

// Trust decides what senders may speak of. The samples that they push, it sees behind the Applier.
type Trust interface {
	// May reports whether a sender may push, read or delete the series of an object; one named "*" stands for all of
	// its resource in the namespace. Instead of metric.Applied it answers metric.Identity, or metric.Pending
	// where that cannot be said yet, and why. The right is the one that an account would need, if one would help: it was
	// refused, or, where the answer is metric.Pending, the API server has not been asked.
	May(*metric.Sender, metric.Verb, metric.Object) (metric.Reason, string, metric.Right)
	// Needs is likewise the right that an account would need for a sample to be applied.
	Needs(*metric.Sample) metric.Right
	// Explain says why a sample was refused for its sender, or why that is pending.
	Explain(*metric.Sample) string
	// ExplainLimit says which limit a sample is refused by, and who has what it would need; empty: none that is known, so
	// it is the process's own.
	ExplainLimit(*metric.Sample) string
}

// Server is the HTTP receiver. It owns its socket from New on; Run gives it up.
type Server struct {
	cfg       Config
	reader    Reader
	resources Resources
	syncer    Syncer
	groups    *group.Groups
	reading   exposition.Options
	build     map[string]string
	began     time.Time
	waiting   seats
	stopping  chan struct{} // closed when Run begins to stop
	account   *ledger.Account
	senders   receiver.Senders
	trust     Trust
	pods      Pods
	full      string
	desk      *credential.Authenticator // nil: credentials are not looked at
	// challenges are for who shows none.
	challenges   []string
	pending      *pending.Buffer
	certificates *certificates // nil: plain HTTP
	alive        func(metric.Object) bool
	checksHosts  bool
	remembered   *remotewrite.SenderState
	log          *slog.Logger

	http      *fasthttp.Server
	gate      *gate
	appliers  *appliers
	budget    budget
	exchanges sync.Pool // of *exchange
	metrics   *metrics

	// life ends when requests in flight may wait no longer.
	life context.Context
	end  context.CancelFunc
}

// New binds the address. Whoever gets a Server must call Run, if only with a context that has ended.
func New(cfg Config, parts Parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	desk, err := newDesk(cfg, parts)
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	certificates, err := newCertificates(cfg, parts)
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	ln, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("push: cannot listen for HTTP on %s: %w", cfg.Address, err)
	}
	s := &Server{
		cfg: cfg, reader: parts.Reader, resources: parts.Resources, syncer: parts.Syncer,
		account: parts.Ledger.Open("http"), log: parts.Logger, metrics: newMetrics(),
		appliers: newAppliers(parts.NewApplier, max(16, 4*runtime.GOMAXPROCS(0))),
		budget:   budget{max: cfg.MaxBufferedBytes},
		groups:   parts.Groups, reading: cfg.reading(), build: parts.Build, began: time.Now(),
		stopping: make(chan struct{}), pods: parts.Pods, full: parts.Full, desk: desk, challenges: challengesOf(desk), certificates: certificates,
		senders: parts.Senders, trust: parts.Trust, pending: parts.Pending, alive: parts.Alive,
		remembered:  remotewrite.NewSenderState(),
		checksHosts: checksHosts(ln.Addr(), parts.Trust != nil),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.exchanges.New = func() any { return &exchange{server: s, origin: receiver.SenderResolver{Senders: s.senders}} }
	s.gate = newGate(ln.(*net.TCPListener), cfg, s.metrics, s.log)
	s.metrics.connections = s.gate.connections
	if certificates != nil {
		s.gate.tls, s.metrics.expires = certificates.server(), certificates.expires.Load
	}
	s.http = s.newHTTP()
	s.waiting.free.Store(maxWaiting)
	return s, nil
}

// newHTTP sets fasthttp up. What is set otherwise than usual:
//
// MaxRequestBodySize is one byte and bodies are streamed, so that readBody alone decides how much is read
// and what an incomplete body is. The caps on connections are the gate's.
func (s *Server) newHTTP() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      s.serve,
		ErrorHandler:                 s.serveError,
		ExpectHandler:                s.expect,
		Logger:                       &libraryLog{log: s.log},
		Name:                         "sluice",
		Concurrency:                  s.cfg.MaxConnections + 1, // never reached: the gate admits fewer
		ReadBufferSize:               s.cfg.MaxHeaderBytes,
		ReadTimeout:                  s.cfg.ReadTimeout,
		WriteTimeout:                 s.cfg.WriteTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		StreamRequestBody:            true,
		MaxRequestBodySize:           1,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true, // bytes of a client stay out of errors
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
	}
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.gate.Addr() }

// Run serves until ctx ends, lets requests in flight finish within ShutdownTimeout, and returns nil.
// It returns an error if serving ended by itself. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.keep()()
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.gate) }()
	var err error
	select {
	case <-ctx.Done():
		s.stop(served)
	case err = <-served:
		err = fmt.Errorf("push: serving ended: %w", errors.Join(err, errServingEnded))
		_ = s.gate.Close()
		s.gate.abort()
	}
	s.end()
	s.appliers.close()
	return err
}

// keep follows files until the returned function is called, which waits for that.
func (s *Server) keep() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	if s.desk != nil {
		following.Go(func() { s.desk.Run(ctx) })
	}
	if s.certificates != nil {
		following.Go(func() { s.certificates.follow(ctx) })
	}
	return func() {
		stop()
		following.Wait()
	}
}

var errServingEnded = errors.New("the socket was closed by somebody else")

// stop closes the socket, waits for the requests in flight, and cuts off those that take too long.
func (s *Server) stop(served <-chan error) {
	// Accepting ends here and not in Shutdown, which does nothing before Serve has come to accept.
	_ = s.gate.Close()
	close(s.stopping)
	grace, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
	defer cancel()
	<-served
	s.gate.abortSilent()
	if err := s.http.ShutdownWithContext(grace); err == nil {
		return
	}
	s.end()
	n := s.gate.abort()
	s.log.Warn("push: connections were cut off at shutdown", "connections", n, "after", s.cfg.ShutdownTimeout)
	for deadline := time.Now().Add(time.Second); s.gate.connections() > 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}
