package agents

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/internal/mutualtls"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Applier is one goroutine's way into the table: that of a receiver, and frames.
type Applier interface {
	Apply(*metric.Sample) metric.Reason
	// EnterFrames and LeaveFrames enclose frames that are applied at once; Frame begins one, Change a change of it, which may have
	// waited; Wait says that it waits, still or again.
	EnterFrames()
	LeaveFrames()
	Frame(feed, number uint64)
	Change(index uint32)
	Wait()
	Online()
	Offline()
	Close()
}

// Senders looks up the holder of an address. Nil: it is not known.
type Senders interface {
	Sender(netip.Addr) *metric.Sender
}

// Account counts samples by what became of them.
type Account interface {
	CountN(r metric.Reason, n uint64)
	AddPackets(n, bytes uint64)
	// HoldN and Settle count samples that wait.
	HoldN(n uint64)
	Settle(r metric.Reason, n uint64)
}

// Nodes are those whose agents report to one of several servers.
type Nodes interface {
	// Came and Left are told of a node's first stream and the end of its last.
	Came(node string)
	Left(node string)
	// Has reports whether a node has an agent at some server, or had one lately.
	Has(node string) bool
}

// Parts are what the server stands on.
type Parts struct {
	// NewApplier makes an Applier that is online.
	NewApplier func() Applier
	// Restored is the number of the last frame of a feed that restored series may include.
	Restored func(feed uint64) uint64
	// Name is this replica's, empty without others, and Epoch says which table it has.
	Name  string
	Epoch uint64
	// Awaited are the runs that were connected when the process of before ended, and that come again if they live.
	Awaited []uint64
	// Published returns a moment: what was applied before it was published to other replicas. Nil: there are none.
	Published func() time.Time
	// Forget forgets a feed of which nothing comes again.
	Forget func(feed uint64)
	// Durable returns a moment: what was applied before it is on disk. Not ok: nothing is persisted.
	Durable func() (moment time.Time, ok bool)
	// Sync returns when what was applied is on disk.
	Sync    func(context.Context) error
	Account Account
	// Senders is nil without a cluster: then each sample is what its claims say.
	Senders Senders
	// Claimant returns the pod that a sample from a Unix socket names, as its sender. Nil: that is not known. Without
	// such a claim it is false. It comes with Senders.
	Claimant func(*metric.Sample) (sender *metric.Sender, claims bool)
	// Blind reports whether the cluster view lacks the API server, since when and why. Nil: never.
	Blind func() (since time.Time, why string, blind bool)
	// Canonical returns the canonical form of a resource, and whether its objects are in namespaces. Nil: none is checked.
	Canonical func(resource string) (canonical string, namespaced bool, err error)
	// NodeOf returns the node of a pod; it comes with Senders.
	NodeOf func(*metric.Pod) string
	// Nodes are told of the nodes that have an agent, and know those of other servers. Nil: there are none.
	Nodes Nodes
	// IsFormer reports whether a sample that arrived at a time is rejected for that: it was about the former holder of a name. It
	// comes with Senders.
	IsFormer func(*metric.Sample) bool
	// Authenticate returns the node and the pod that a token is bound to, or why it is rejected; it comes with Senders. Without a
	// podUID the pod is not known.
	Authenticate func(ctx context.Context, token string) (node, podUID, why string, err error)
	// HasPod reports whether a pod lives; it comes with Authenticate.
	HasPod func(uid string) bool
	// Came is told of a node whose agent is connected, once for each run. It may be nil.
	Came func(node string)
	// Explain says why a sample was rejected; empty: the reason says all. Rejected is told of rejected samples,
	// of a flood some, which stand for more. Both may be nil.
	Explain  func(metric.Reason, *metric.Sample) string
	Rejected func(reason metric.Reason, s *metric.Sample, n uint64, why string)
	// Usage takes what a node and its containers use, and returns the pods that were created since. May be nil.
	Usage func(node string, report usage.Report) []Renewal
	// Seconds takes what the containers of a node's report of a number used in the newest second. It comes with Usage.
	Seconds func(node string, number uint64, seconds *usage.Seconds)
	// ContainerNamed returns the name of the container of an ID, and its node. Nil: no names are known.
	ContainerNamed func(id string) (c metric.Container, node string, ok bool)
	// Scrapes is told of an agent that scrapes for its node. Nil: none does.
	Scrapes func(node string) Scrapes
	// Ready reports whether senders are known, and what is missing. Agents wait until they are.
	Ready  func() (bool, string)
	Logger *slog.Logger
}

// Server is the port for agents.
type Server struct {
	parts    Parts
	listener *connlimit.Listener
	grpc     *grpc.Server
	log      *slog.Logger
	appliers chan Applier
	asking   *connlimit.Slots        // of tokens that are checked, by address
	secured  *mutualtls.Certificates // nil: plain text

	mu    sync.Mutex // guards the fields below
	nodes map[string]*node
	runs  map[uint64]*run
	gone  []uint64 // forgotten runs that the table knows still
	// awaited are runs whose samples of the time while no server ran are not applied yet; until: no longer than that.
	awaited map[uint64]bool
	until   time.Time
	swept   time.Time

	began time.Time
	// againWait, podPatience and standstill are the constants outside of tests.
	againWait, podPatience, standstill time.Duration
	ending                             chan struct{} // closed when the server ends
	room, again                        *room         // bytes of series and of changes that wait, and of frames that come again: see memory.go
	strangers                          strangers
	waits                              atomic.Int64 // bytes of the changes of all runs that wait for their senders
	maxBytes                           int64        // of both
	largePages                         *room        // bytes of large pages that wait to be taken
	count                              counters
	rejected                           [metric.NumReasons]ratelog.Limiter
}

// Limits of agents.
const (
	maxAgents     = 20_000
	maxEach       = 64 // connections of one address: agents of one node, during an update
	maxAskingEach = 8  // tokens of one address that are checked at once: others must not wait behind made-up ones
	maxMessage    = 8 << 20
	maxHeader     = 8 << 10 // a token has up to 2 KiB
	// streamWindow and connWindow are the bytes that an agent sends ahead. grpc would else raise both to 16 MiB for any client that
	// seems to be far away, and keep as much of each stream that nobody reads. The window of a stream grows by a message while it is
	// read, and that of a connection has bytes that were read from it already: so neither delays a large frame.
	streamWindow, connWindow = 64 << 10, 1 << 20
	// maxReceived bounds what clients send before they show a token, beyond 8 KiB of each connection: an agent sends a token and
	// a hello.
	maxReceived = 1 << 20

	connectionBuffer = 4 << 10
	pingEvery        = 20 * time.Second
	pingPatience     = 10 * time.Second
	answerPatience   = 10 * time.Second
	// endWithin bounds the end of all streams.
	endWithin = 5 * time.Second
	// awaitAgents is how long answers wait for the agents of before, which try to connect every two seconds.
	awaitAgents = 10 * time.Second
)

// Listen binds the address.
func Listen(cfg Config, parts Parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	s := &Server{parts: parts, largePages: fair.NewBriefRoom[string](0, int64(maxLarge)), log: parts.Logger, began: time.Now(), againWait: againWait, podPatience: podPatience,
		standstill: standstill, asking: connlimit.NewSlots(0, maxAskingEach), nodes: map[string]*node{},
		runs: map[uint64]*run{}, awaited: map[uint64]bool{}, ending: make(chan struct{})}
	for _, id := range parts.Awaited {
		s.awaited[id] = true
	}
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingPatience}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(connlimit.HandshakeTimeout), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(4), grpc.WaitForHandlers(true),
		// Frames are small, and there are thousands of connections: two buffers of 32 KiB each would be most of an agent's memory here.
		grpc.ReadBufferSize(connectionBuffer), grpc.WriteBufferSize(connectionBuffer),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
	}
	limits := connlimit.Limits{Max: maxAgents, MaxEach: maxEach, WriteStall: pingPatience, MaxReceived: maxReceived}
	if !cfg.Insecure {
		limits.Handshake = connlimit.HandshakeTimeout
		var err error
		s.secured, err = mutualtls.New(mutualtls.Config{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, ServerOnly: true, Which: "of agents"}, parts.Logger)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(s.secured.TLS())))
	}
	listener, err := connlimit.Listen(cfg.Address, "agents", limits, parts.Logger)
	if err != nil {
		return nil, err
	}
	again := cfg.MaxBytes / 4
	s.maxBytes = cfg.MaxBytes
	s.listener, s.room, s.again = listener, fair.NewRoom[string](cfg.MaxBytes-again), fair.NewRoom[string](again)
	s.grpc = grpc.NewServer(options...)
	agentwire.RegisterAgentsServer(s.grpc, &service{Server: s})
	s.appliers = make(chan Applier, 2*runtime.GOMAXPROCS(0))
	return s, nil
}

// Addr is the address, with the actual port if the configuration says 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close closes the listener if Run is not called.
func (s *Server) Close() { _ = s.listener.Close() }

// Run serves until ctx ends, then ends all streams and returns. What they had sent is applied.
func (s *Server) Run(ctx context.Context) error {
	for range cap(s.appliers) {
		applier := s.parts.NewApplier()
		applier.Offline()
		s.appliers <- applier
	}
	defer func() {
		for range cap(s.appliers) {
			(<-s.appliers).Close()
		}
	}()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		close(s.ending)
		defer time.AfterFunc(endWithin, s.grpc.Stop).Stop() // an agent sends again what is not acknowledged
		s.grpc.GracefulStop()
	}()
	s.log.Info("listening for agents", "address", s.Addr().String())
	err := s.grpc.Serve(s.listener)
	if ctx.Err() != nil {
		<-stopped
		return nil
	}
	return fmt.Errorf("agents: %w", err)
}

// Answers reports whether windows have what agents received while no server ran. A server that has just started waits for the
// agents that there were: what is read before would be too low, and an autoscaler would scale on it.
func (s *Server) Answers() (bool, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.awaited) == 0 {
		return true, ""
	}
	if ready, _ := s.parts.Ready(); !ready {
		return false, "agents"
	}
	now := time.Now()
	switch {
	case s.until.IsZero():
		s.until = now.Add(awaitAgents)
	case now.After(s.until):
		s.awaited = nil
		return true, ""
	}
	return false, fmt.Sprintf("agents, of which %d are not heard again yet", len(s.awaited))
}

// hasCaughtUp notes that a run has told what came before now.
func (s *Server) hasCaughtUp(feed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.awaited, feed)
}

// service keeps the generated code's base out of Server.
type service struct {
	agentwire.UnimplementedAgentsServer
	*Server
}

// Report serves one agent. Its token is checked before any message is read: gRPC holds as much of a message as has come, up to
// maxMessage, and only those who have shown a token may take that memory.
func (s *service) Report(g grpc.BidiStreamingServer[agentwire.FromAgent, agentwire.FromServer]) error {
	select {
	case <-s.ending:
		return status.Error(codes.Unavailable, "the server ends")
	default:
	}
	if ready, missing := s.parts.Ready(); !ready {
		return status.Error(codes.Unavailable, "the server is not ready: "+missing)
	}
	node, pod, err := s.node(g.Context())
	if err != nil {
		return err
	}
	if from, ok := peer.FromContext(g.Context()); ok {
		s.listener.Prove(from.Addr.String())
		s.listener.Trust(from.Addr.String())
	}
	first, err := g.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil || hello.Run == 0 {
		return status.Error(codes.InvalidArgument, "a stream must begin with a hello that has a run")
	}
	if !agentwire.Speaks(hello.Protocol) {
		return status.Errorf(codes.FailedPrecondition, "the agent (sluice %.40s) speaks version %d of the protocol, this server %d: update the older one",
			hello.Version, hello.Protocol, agentwire.Protocol)
	}
	if s.parts.Authenticate == nil {
		if node = hello.Node; node == "" || len(node) > 253 {
			return status.Error(codes.InvalidArgument, "the hello names no node")
		}
	}
	select {
	case <-s.ending:
		return status.Error(codes.Unavailable, "the server ends")
	default:
	}
	t := newStream(s.Server, g, node, pod, hello)
	if err := s.enter(t); err != nil {
		return err
	}
	defer s.leave(t)
	return t.serve()
}

// node finds out whose agent it is by its token, and which pod it runs in, if that is known. Without Authenticate the hello says the node.
func (s *Server) node(ctx context.Context) (node, podUID string, err error) {
	if s.parts.Authenticate == nil {
		return "", "", nil
	}
	token := ""
	if found := metadata.ValueFromIncomingContext(ctx, "authorization"); len(found) == 1 {
		token, _ = strings.CutPrefix(found[0], "Bearer ")
	}
	if token == "" {
		return "", "", status.Error(codes.Unauthenticated, "no token; must be that of a service account, bound to the agent's pod")
	}
	if from, ok := peer.FromContext(ctx); ok {
		address := connlimit.Prefix(from.Addr.String())
		if err := s.asking.Acquire(address); err != nil {
			return "", "", status.Errorf(codes.Unavailable, "the token cannot be checked yet: %v; try again", err)
		}
		defer s.asking.Release(address)
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	node, podUID, why, err := s.parts.Authenticate(ctx, token)
	switch {
	case err != nil:
		return "", "", status.Errorf(codes.Unavailable, "the token cannot be checked: %v", err)
	case why != "":
		return "", "", status.Error(codes.Unauthenticated, why)
	}
	return node, podUID, nil
}
