package agents

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agent"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// table is a table without windows: the sums of counters, by name.
type table struct {
	mu       sync.Mutex
	sums     map[string]float64
	arrived  []time.Time // of samples with an age
	reject   map[string]metric.Reason
	restored uint64
	durable  time.Time
	counts   map[string]uint64 // by reason
	frames   []uint64
	during   func() // called for each sample
}

func newTable() *table {
	return &table{sums: map[string]float64{}, reject: map[string]metric.Reason{}, counts: map[string]uint64{}}
}

// durableTable is a table all of whose frames are on disk at once.
func durableTable() *table {
	t := newTable()
	t.flushed(time.Hour)
	return t
}

// flushed has everything on disk that was applied before a moment, which is so far ahead.
func (t *table) flushed(ahead time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.durable = time.Now().Add(ahead)
}

// writer is a table's Applier. Its section holds the table's lock.
type writer struct{ *table }

func (w writer) EnterFrames()              { w.mu.Lock() }
func (w writer) LeaveFrames()              { w.mu.Unlock() }
func (w writer) Frame(feed, number uint64) { w.frames = append(w.frames, number) }
func (w writer) Change(uint32)             {}
func (w writer) Wait()                     {}
func (w writer) Online()                   {}
func (w writer) Offline()                  {}
func (w writer) Close()                    {}
func (w writer) Apply(s *metric.Sample) metric.Reason {
	if w.during != nil {
		w.during()
	}
	if r := w.reject[string(s.Name)]; r != metric.Applied {
		return r
	}
	if s.Arrived != 0 {
		w.arrived = append(w.arrived, time.Unix(0, s.Arrived))
	}
	switch s.Op {
	case metric.Assign:
		w.sums[string(s.Name)] = s.Float()
	case metric.Insert:
		w.sums[string(s.Name)+"="+string(s.Member)]++
	default:
		w.sums[string(s.Name)] += s.Float()
	}
	return metric.Applied
}

func (t *table) CountN(r metric.Reason, n uint64) { t.note(r.String(), n) }
func (t *table) AddPackets(uint64, uint64)        {}
func (t *table) HoldN(n uint64)                   { t.note("held", n) }
func (t *table) Settle(r metric.Reason, n uint64) { t.note("settled "+r.String(), n) }

// note is called within and outside of sections.
func (t *table) note(what string, n uint64) {
	notes.Lock()
	defer notes.Unlock()
	t.counts[what] += n
}

var notes sync.Mutex

func (t *table) counted() string {
	notes.Lock()
	defer notes.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		all = append(all, fmt.Sprintf("%s %d", what, t.counts[what]))
	}
	return strings.Join(all, ", ")
}

func (t *table) sum(name string) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sums[name]
}

func (t *table) parts() Parts {
	return Parts{
		NewApplier: func() Applier { return writer{t} }, Account: t, Ready: func() (bool, string) { return true, "" }, Forget: func(uint64) {},
		Restored: func(uint64) uint64 { return t.restored },
		Durable: func() (time.Time, bool) {
			t.mu.Lock()
			defer t.mu.Unlock()
			return t.durable, true
		},
		Sync: func(context.Context) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.durable = time.Now().Add(time.Hour)
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	}
}

// served is a server that runs until end is called.
type served struct {
	*Server
	t   *testing.T
	end func()
}

func serve(t *testing.T, address string, parts Parts) *served {
	t.Helper()
	return serveConfig(t, Config{Address: address, Insecure: true, MaxBytes: DefaultConfig().MaxBytes}, parts)
}

func serveConfig(t *testing.T, cfg Config, parts Parts) *served {
	t.Helper()
	s, err := Listen(cfg, parts)
	must(t, err)
	s.began = time.Time{} // it knows all agents that there are
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	end := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(end)
	return &served{s, t, end}
}

// client speaks the protocol by hand.
type client struct {
	t *testing.T
	grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer]
}

func (s *served) dial(ctx context.Context) *client {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	stream, err := agentwire.NewAgentsClient(conn).Report(ctx)
	must(s.t, err)
	return &client{s.t, stream}
}

// hello begins a stream, and returns the last applied frame.
func (s *served) hello(run uint64) (*client, uint64) {
	s.t.Helper()
	c := s.dial(context.Background())
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "a", Run: run}}})
	answer, err := c.Recv()
	must(s.t, err)
	return c, answer.GetWelcome().GetApplied()
}

func (c *client) send(m *agentwire.FromAgent) {
	c.t.Helper()
	if err := c.Send(m); err != nil && !errors.Is(err, io.EOF) { // EOF: the server has ended the stream, and Recv says why
		c.t.Fatal(err)
	}
}

// frame sends a frame with some changes of counters, each of a series that it defines.
func (c *client) frame(number uint64, changes ...*agentwire.Change) {
	c.t.Helper()
	f := &agentwire.Frame{Number: number, Changes: changes}
	for i := range uint32(5) {
		f.Series = append(f.Series, &agentwire.Series{Number: i, Name: fmt.Appendf(nil, "c%d", i), Kind: uint32(metric.Counter), Address: []byte{10, 0, 0, byte(i)}})
	}
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}})
}

func add(series uint32, n int64) *agentwire.Change {
	return &agentwire.Change{Series: series, Samples: uint64(n), Op: agentwire.Op_ADD, Whole: n}
}

// next waits for an answer that want takes.
func (c *client) next(want func(*agentwire.FromServer) bool) *agentwire.FromServer {
	c.t.Helper()
	for {
		answer, err := c.Recv()
		must(c.t, err)
		if want(answer) {
			return answer
		}
	}
}

func (c *client) acked(number uint64) {
	c.t.Helper()
	c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil && a.GetAck().Number == number })
}

// fails waits until the server ends the stream, and checks why.
func (c *client) fails(code codes.Code, text string) {
	c.t.Helper()
	for {
		_, err := c.Recv()
		if err == nil {
			continue
		}
		if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
			c.t.Errorf("%v, want %v with %q", err, code, text)
		}
		return
	}
}

// A frame counts once, is acknowledged once it is on disk, and the next stream of the run goes on after it.
func TestFrames(t *testing.T) {
	table := newTable()
	s := serve(t, "127.0.0.1:0", table.parts())
	c, applied := s.hello(7)
	if applied != 0 {
		t.Errorf("applied %d before any frame", applied)
	}
	c.frame(1, add(1, 5), add(2, 3))
	c.frame(2, add(1, 1))
	c.acked(0) // a tick after the frames, or before them
	table.flushed(time.Hour)
	c.acked(2)
	again, applied := s.hello(7)
	c.fails(codes.Aborted, "connected again")
	if applied != 2 {
		t.Errorf("applied %d, want 2", applied)
	}
	again.frame(3, add(1, 1))
	again.acked(3)
	if a, b := table.sum("c1"), table.sum("c2"); a != 7 || b != 3 {
		t.Errorf("c1 %v, c2 %v", a, b)
	}
	if got := table.counted(); got != "applied 10" {
		t.Error(got)
	}
}

// The last frame of an agent is acknowledged at once: it waits for nothing else.
func TestLastFrame(t *testing.T) {
	s := serve(t, "127.0.0.1:0", newTable().parts())
	c, _ := s.hello(7)
	c.frame(1, add(1, 5))
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 2, Last: true}}})
	c.acked(2)
}

// The frames that a restored table may include are applied at once, when the last of them has come.
func TestFramesAfterARestore(t *testing.T) {
	table := newTable()
	table.restored, table.durable = 12, time.Now().Add(time.Hour)
	s := serve(t, "127.0.0.1:0", table.parts())
	c, _ := s.hello(7)
	c.frame(10, add(1, 1))
	c.frame(11, add(1, 1))
	c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil })
	if got := table.sum("c1"); got != 0 {
		t.Errorf("%v is applied before all have come", got)
	}
	c.frame(12, add(1, 1))
	c.acked(12)
	if got := table.sum("c1"); got != 3 || !slices.Equal(table.frames, []uint64{10, 11, 12}) {
		t.Errorf("c1 is %v, frames %v", got, table.frames)
	}
}

// What does not follow the protocol ends the stream, with a reason, and counts nothing.
func TestForgedFrames(t *testing.T) {
	for name, f := range map[string]struct {
		send func(*client)
		code codes.Code
		text string
	}{
		"a number that jumps":   {func(c *client) { c.frame(1); c.frame(3) }, codes.InvalidArgument, "frame 3 came after frame 1"},
		"a number that is back": {func(c *client) { c.frame(5); c.frame(5) }, codes.InvalidArgument, "frame 5 came after frame 5"},
		"no number":             {func(c *client) { c.frame(0) }, codes.InvalidArgument, "frame 0"},
		"no definition":         {func(c *client) { c.frame(1, add(77, 1)) }, codes.InvalidArgument, "series 77"},
		"no series at all": {func(c *client) {
			c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 1, Changes: []*agentwire.Change{add(0, 1)}}}})
		}, codes.InvalidArgument, "series 0"},
		"a second hello": {func(c *client) {
			c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{}}})
		}, codes.InvalidArgument, "no frame"},
		"a kind that is none": {func(c *client) {
			c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 1, Series: []*agentwire.Series{{Number: 1, Kind: 99}}}}})
		}, codes.InvalidArgument, "definition of series 1"},
		"an address of three bytes": {func(c *client) {
			c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 1, Series: []*agentwire.Series{{Number: 1, Kind: 1, Address: []byte{1, 2, 3}}}}}})
		}, codes.InvalidArgument, "definition of series 1"},
		"70 MiB of definitions": {func(c *client) {
			for n := range uint64(10) {
				f := &agentwire.Frame{Number: n + 1}
				for i := range uint32(7) {
					f.Series = append(f.Series, &agentwire.Series{Number: uint32(n)*10 + i, Kind: uint32(metric.Counter), Name: make([]byte, 1<<20)})
				}
				_ = c.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}}) // it fails once the server has ended the stream
			}
		}, codes.ResourceExhausted, "the series of the stream"},
		"9 MiB": {func(c *client) {
			c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 1, Changes: []*agentwire.Change{{Members: [][]byte{make([]byte, 9<<20)}}}}}})
		}, codes.ResourceExhausted, "larger than max"},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			s := serve(t, "127.0.0.1:0", table.parts())
			c, _ := s.hello(7)
			f.send(c)
			c.fails(f.code, f.text)
			if len(table.sums) > 0 {
				t.Errorf("counted %v", table.sums)
			}
		})
	}
}

// A stream must begin with a hello of this version of the protocol, and wait until the server knows its senders.
func TestHello(t *testing.T) {
	ready := false
	parts := newTable().parts()
	parts.Ready = func() (bool, string) { return ready, "pods are not read" }
	s := serve(t, "127.0.0.1:0", parts)
	try := func(h *agentwire.Hello, code codes.Code, text string) {
		t.Helper()
		c := s.dial(context.Background())
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: h}})
		c.fails(code, text)
	}
	try(&agentwire.Hello{Protocol: 1, Run: 1, Node: "a"}, codes.Unavailable, "pods are not read")
	ready = true
	for protocol := range uint32(agentwire.Protocol + 3) {
		hello := &agentwire.Hello{Protocol: protocol, Run: uint64(10 + protocol), Node: "a", Version: "9.9"}
		if protocol == 0 || protocol+1 < agentwire.Protocol || protocol > agentwire.Protocol+1 {
			try(hello, codes.FailedPrecondition, fmt.Sprintf("the agent (sluice 9.9) speaks version %d of the protocol, this server %d", protocol, agentwire.Protocol))
			continue
		}
		c := s.dial(context.Background())
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: hello}})
		if w := c.next(func(a *agentwire.FromServer) bool { return true }).GetWelcome(); w.GetProtocol() != agentwire.Protocol {
			t.Errorf("the welcome is %v", w)
		}
	}
	try(&agentwire.Hello{Protocol: 1, Node: "a"}, codes.InvalidArgument, "a run")
	try(&agentwire.Hello{Protocol: 1, Run: 1}, codes.InvalidArgument, "no node")
	c := s.dial(context.Background())
	c.frame(1)
	c.fails(codes.InvalidArgument, "must begin with a hello")
}

// In a cluster the token says which node it is; without a good one there is no stream.
func TestTokens(t *testing.T) {
	parts := newTable().parts()
	parts.Authenticate = func(_ context.Context, token string) (string, string, string, error) {
		switch token {
		case "good":
			return "node-1", "", "", nil
		case "away":
			return "", "", "", errors.New("the API server does not answer")
		}
		return "", "", "the token is invalid", nil
	}
	s := serve(t, "127.0.0.1:0", parts)
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "bad": codes.Unauthenticated, "away": codes.Unavailable, "good": codes.OK} {
		ctx := context.Background()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		c := s.dial(ctx)
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Run: 1, Node: "forged"}}})
		answer, err := c.Recv()
		if status.Code(err) != want || want == codes.OK && (answer.GetWelcome() == nil || !s.hasAgent("node-1") || s.hasAgent("forged")) {
			t.Errorf("%q: %v, %v", token, answer, err)
		}
	}
}

// A message of a client without a token takes no memory: its stream ends before any is read.
func TestStrangersAreNotRead(t *testing.T) {
	parts := newTable().parts()
	parts.Authenticate = func(context.Context, string) (string, string, string, error) {
		return "", "", "the token is invalid", nil
	}
	s := serve(t, "127.0.0.1:0", parts)
	for _, token := range []string{"", "bad"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		s.dial(ctx).fails(codes.Unauthenticated, "token") // it says nothing
		cancel()
	}
}

// Made-up tokens of one address do not fill the line in which others wait: the API server's answers are few a second.
func TestMadeUpTokensOfOneAddress(t *testing.T) {
	parts := newTable().parts()
	release := make(chan struct{})
	var line atomic.Int64
	parts.Authenticate = func(_ context.Context, token string) (string, string, string, error) {
		if token == "good" {
			return "node-1", "", "", nil
		}
		line.Add(1)
		<-release
		return "", "", "the token is invalid", nil
	}
	s := serve(t, "127.0.0.1:0", parts)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const strangers, connections, streams = 2, 5, 4
	ended := make(chan error, strangers*connections*streams)
	for i := range strangers * connections {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 4, byte(1+i%strangers))}}
		conn, err := grpc.NewClient("passthrough:///"+s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", to) }))
		must(t, err)
		defer conn.Close()
		for range streams {
			stream, err := agentwire.NewAgentsClient(conn).Report(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer guessed"))
			must(t, err)
			go func() {
				_, err := stream.Recv()
				ended <- err
			}()
		}
	}
	for range strangers * (connections*streams - maxAskingEach) {
		if err := <-ended; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "limit of 8 reached for 127.0.4.") {
			t.Errorf("beyond the limit: %v", err)
		}
	}
	c := s.dial(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer good"))
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Run: 1}}})
	if answer, err := c.Recv(); err != nil || answer.GetWelcome() == nil {
		t.Errorf("an agent of another address: %v, %v", answer, err)
	}
	close(release)
	for range strangers * maxAskingEach {
		if err := <-ended; status.Code(err) != codes.Unauthenticated {
			t.Errorf("within the limit: %v", err)
		}
	}
	if line.Load() != strangers*maxAskingEach {
		t.Errorf("%d tokens were checked", line.Load())
	}
}

// The certificate is that of the files, also once these have changed.
func TestCertificateThatIsRenewed(t *testing.T) {
	folder := t.TempDir()
	cfg := Config{Address: "127.0.0.1:0", MaxBytes: DefaultConfig().MaxBytes}
	cfg.CertFile, cfg.KeyFile, _ = testauthority.New(t).Sign(t, folder, testauthority.Leaf{})
	s, err := Listen(cfg, newTable().parts())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	shown := func() []byte {
		conn, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		must(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Raw
	}
	testauthority.WantBoundedHandshakes(t, "h2", func() (net.Conn, error) { return net.Dial("tcp", s.Addr().String()) })
	before := shown()
	expires := func() float64 {
		registry := prometheus.NewRegistry()
		must(t, registry.Register(s))
		families, err := registry.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() == "sluice_agents_certificate_expires_timestamp_seconds" {
				return f.Metric[0].GetGauge().GetValue()
			}
		}
		return 0
	}
	ofFirst := expires()
	testauthority.New(t).Sign(t, folder, testauthority.Leaf{Ended: true})
	for bytes.Equal(shown(), before) {
		time.Sleep(10 * time.Millisecond)
	}
	if now, second := float64(time.Now().Unix()), expires(); ofFirst < now || second == 0 || second > now {
		t.Errorf("the metric says that the first certificate ends at %.0f, and the second, which has ended, at %.0f", ofFirst, second)
	}
	cancel()
	must(t, <-done)
	cfg.KeyFile = cfg.CertFile
	if _, err := Listen(cfg, newTable().parts()); err == nil || !strings.Contains(err.Error(), "CertFile") {
		t.Errorf("a key that is none: %v", err)
	}
}

// An agent whose pod has ended speaks for no node any more: the next machine may have the node's name.
func TestAnAgentEndsWithItsPod(t *testing.T) {
	t.Parallel() // it waits
	table := durableTable()
	var ended atomic.Bool
	parts := table.parts()
	parts.Authenticate = func(_ context.Context, token string) (string, string, string, error) { return "node-1", token, "", nil }
	parts.HasPod = func(uid string) bool { return uid == "stays" || !ended.Load() }
	s := serve(t, "127.0.0.1:0", parts)
	s.podPatience = 0
	agents := map[string]*client{}
	for run, pod := range []string{"stays", "ends"} {
		c := s.dial(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+pod))
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Run: uint64(run) + 1}}})
		c.frame(1, add(1, 1))
		c.acked(1)
		agents[pod] = c
	}
	ended.Store(true)
	agents["ends"].fails(codes.Unauthenticated, "the agent's pod has ended")
	agents["stays"].frame(2, add(1, 1))
	agents["stays"].acked(2)
}

// senders knows pods by their addresses.
type senders struct {
	mu   sync.Mutex
	pods map[netip.Addr]*metric.Pod
}

func (s *senders) Sender(a netip.Addr) *metric.Sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, known := s.pods[a]
	if !known {
		return nil
	}
	return &metric.Sender{Key: 1, Address: a, Pod: pod, Known: true}
}

func (s *senders) put(a netip.Addr, pod *metric.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[a] = pod
}

// An agent speaks for the pods of its node, and for those of nodes without an agent. What comes from an address that is not known
// yet waits, and with it the acknowledgement.
func TestAnAgentSpeaksForItsNode(t *testing.T) {
	table := durableTable()
	address := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }
	known := &senders{pods: map[netip.Addr]*metric.Pod{
		address(0): {Name: "mine"}, address(1): {Name: "another's"}, address(2): {Name: "of no agent"}, address(3): nil,
	}}
	nodes := map[string]string{"mine": "a", "another's": "b", "of no agent": "virtual", "late": "a"}
	parts := table.parts()
	parts.Senders, parts.NodeOf = known, func(p *metric.Pod) string { return nodes[p.Name] }
	s := serve(t, "127.0.0.1:0", parts)
	other := s.dial(context.Background())
	other.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "b", Run: 8}}})
	other.next(func(a *agentwire.FromServer) bool { return a.GetWelcome() != nil })

	c, _ := s.hello(7)
	c.frame(1, add(0, 1), add(1, 2), add(2, 3), add(3, 4), add(4, 5))
	rejected := map[uint32]string{}
	for len(rejected) < 2 {
		r := c.next(func(a *agentwire.FromServer) bool { return a.GetRejection() != nil }).GetRejection()
		rejected[r.Series] = r.Reason + ": " + r.Words
	}
	if !strings.Contains(rejected[1], "identity: the agent of node a does not speak for pods of node b") || !strings.Contains(rejected[3], "is that of no pod") {
		t.Errorf("%v", rejected)
	}
	c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil })
	if got := table.counted(); got != "applied 4, held 5, identity 6" {
		t.Error(got)
	}
	// The stream ends meanwhile, and what waits does not.
	again, applied := s.hello(7)
	if applied != 1 {
		t.Errorf("applied %d", applied)
	}
	known.put(address(4), &metric.Pod{Name: "late"})
	again.acked(1)
	if got := table.counted(); got != "applied 4, held 5, identity 6, settled applied 5" {
		t.Error(got)
	}
	if table.sum("c0") != 1 || table.sum("c1") != 0 || table.sum("c2") != 3 || table.sum("c4") != 5 {
		t.Errorf("%v", table.sums)
	}
}

// A sample from a Unix socket is that of the pod which it names, if that is on the agent's node. It waits for a pod
// that is not known yet.
func TestUnixSockets(t *testing.T) {
	table := durableTable()
	nodes := map[string]string{"mine": "a", "late": "a", "of no agent": "virtual"}
	var known sync.Map
	known.Store("mine", true)
	known.Store("of no agent", true)
	parts := table.parts()
	parts.Senders, parts.NodeOf = &senders{}, func(p *metric.Pod) string { return nodes[p.Name] }
	parts.Claimant = func(s *metric.Sample) (*metric.Sender, bool) {
		name := string(s.Container)
		if _, there := known.Load(name); !there {
			return nil, name != ""
		}
		return &metric.Sender{Key: 1, Pod: &metric.Pod{Name: name}, Known: true, Claimed: true}, true
	}
	s := serve(t, "127.0.0.1:0", parts)
	c, _ := s.hello(7)
	f := &agentwire.Frame{Number: 1}
	for i, claim := range []string{"mine", "late", "of no agent", ""} {
		f.Series = append(f.Series, &agentwire.Series{Number: uint32(i), Name: []byte("c"), Kind: uint32(metric.Counter), Container: []byte(claim)})
		f.Changes = append(f.Changes, add(uint32(i), 1<<i))
	}
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}})
	rejected := map[uint32]string{}
	for len(rejected) < 2 {
		r := c.next(func(a *agentwire.FromServer) bool { return a.GetRejection() != nil }).GetRejection()
		rejected[r.Series] = r.Reason + ": " + r.Words
	}
	if !strings.Contains(rejected[2], "identity: it came from a Unix socket of node a, and names a pod of node virtual") ||
		!strings.Contains(rejected[3], "identity: it came from a Unix socket, which does not say who sends, and names no pod") {
		t.Errorf("%v", rejected)
	}
	known.Store("late", true)
	c.acked(1)
	if got := table.counted(); got != "applied 1, held 2, identity 12, settled applied 2" || table.sum("c") != 3 {
		t.Errorf("%s; %v", got, table.sum("c"))
	}
}

// A definition of HTTP has an object, labels and a lifetime. One of a resource that the server knows otherwise, or of
// a name that no object has, is rejected.
func TestObjectsOfHTTP(t *testing.T) {
	table := durableTable()
	parts := table.parts()
	parts.Canonical = func(resource string) (string, bool, error) {
		if resource == "crontabs" {
			return "", false, errors.New("no resource crontabs")
		}
		return strings.TrimSuffix(resource, ".old"), resource != "nodes", nil
	}
	var applied []string
	parts.NewApplier = func() Applier {
		return watcher{writer{table}, func(s *metric.Sample) {
			applied = append(applied, fmt.Sprintf("%v%v%v", s.Object, s.Fields, s.TTL))
		}}
	}
	s := serve(t, "127.0.0.1:0", parts)
	c, _ := s.hello(7)
	f := &agentwire.Frame{Number: 1}
	for i, object := range []*agentwire.Object{{Resource: "pods", Namespace: "shop", Name: "web"}, {Namespace: "shop"}, {Resource: "nodes", Name: "a"}, nil,
		{Resource: "crontabs", Namespace: "shop", Name: "web"}, {Resource: "deployments.old", Namespace: "shop", Name: "web"},
		{Resource: "pods", Name: "web"}, {Resource: "pods", Namespace: "shop", Name: "*"}, {Resource: "pods", Namespace: "shop"}, {Name: "web"}} {
		f.Series = append(f.Series, &agentwire.Series{Number: uint32(i), Name: []byte("c"), Kind: uint32(metric.Counter), Object: object,
			Labels: []*agentwire.Label{{Key: "k", Value: "v\n"}}, TtlNanos: int64(time.Hour)})
		f.Changes = append(f.Changes, add(uint32(i), 1))
	}
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}})
	c.acked(1)
	want := fmt.Sprint([]string{"pods/web in shop[{k v\n}]1h0m0s", "external in shop[{k v\n}]1h0m0s", "nodes/a[{k v\n}]1h0m0s", "<nil>[{k v\n}]1h0m0s"})
	if got := table.counted(); got != "applied 4, identity 6" || fmt.Sprint(applied) != want {
		t.Errorf("%s\n%s, want\n%s", got, applied, want)
	}
}

// watcher tells of each sample.
type watcher struct {
	writer
	tell func(*metric.Sample)
}

func (w watcher) Apply(s *metric.Sample) metric.Reason { w.tell(s); return w.writer.Apply(s) }

// A server that has just started does not know which nodes have agents. What an agent reports of another node's pods waits meanwhile.
func TestAgentsOfOtherNodesWaitAtTheStart(t *testing.T) {
	table := newTable()
	parts := table.parts()
	parts.Senders = &senders{pods: map[netip.Addr]*metric.Pod{netip.AddrFrom4([4]byte{10, 0, 0, 1}): {Name: "another's"}}}
	parts.NodeOf = func(*metric.Pod) string { return "b" }
	s := serve(t, "127.0.0.1:0", parts)
	s.mu.Lock()
	s.began = time.Now().Add(time.Hour)
	s.mu.Unlock()
	c, _ := s.hello(7)
	c.frame(1, add(1, 2))
	c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil })
	if got := table.counted(); got != "held 2" {
		t.Error(got)
	}
}

// A server that was killed under connected agents answers once they have told what came meanwhile, or do not come.
func TestAnswersWaitForAgents(t *testing.T) {
	parts := newTable().parts()
	parts.Awaited = []uint64{7, 8}
	s := serve(t, "127.0.0.1:0", parts)
	if ok, missing := s.Answers(); ok || !strings.Contains(missing, "2 are not heard") {
		t.Errorf("%t, %q", ok, missing)
	}
	c, _ := s.hello(7)
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 1, AgeNanos: int64(time.Minute)}}})
	c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil })
	if _, missing := s.Answers(); !strings.Contains(missing, "2 are not heard") {
		t.Errorf("%q after an old frame", missing)
	}
	c.frame(2)
	for ok := false; !ok; {
		_, missing := s.Answers()
		ok = strings.Contains(missing, "1 are not heard")
	}
	s.mu.Lock()
	s.until = time.Now().Add(-time.Second)
	s.mu.Unlock()
	if ok, missing := s.Answers(); !ok {
		t.Errorf("%q after the wait", missing)
	}
}

// A node has eight runs at most, of which the oldest is forgotten, and the table hears of it.
func TestRunsOfANode(t *testing.T) {
	table, forgotten := newTable(), make(chan uint64, 100)
	parts := table.parts()
	parts.Forget = func(id uint64) { forgotten <- id }
	s := serve(t, "127.0.0.1:0", parts)
	for run := range uint64(20) {
		c, _ := s.hello(run + 1)
		must(t, c.CloseSend())
		for { // until the server has ended the stream
			if _, err := c.Recv(); err != nil {
				break
			}
		}
	}
	for want := uint64(1); want <= 11; want++ {
		if got := <-forgotten; got != want {
			t.Fatalf("run %d is forgotten, want %d", got, want)
		}
	}
}

// newLink makes the link of an agent of node a to some servers, and what it tells.
func newLink(t *testing.T, servers string) (*agent.Collector, *agent.Link) {
	t.Helper()
	cfg := agent.DefaultConfig()
	cfg.Server, cfg.Node, cfg.Insecure = servers, "a", true
	collector := agent.NewCollector(cfg)
	link, err := agent.NewLink(cfg, "test", collector, slog.New(slog.DiscardHandler))
	must(t, err)
	return collector, link
}

// runLink runs a link until end is called.
func runLink(t *testing.T, link *agent.Link) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- link.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// An agent's own link: what it collects arrives once, with its time, whatever becomes of the server; what is rejected is counted at
// the agent.
func TestALinkOverServers(t *testing.T) {
	table := durableTable()
	table.reject["bad"] = metric.OverLimit
	s := serve(t, "127.0.0.1:0", table.parts())
	address := s.Addr().String()
	collector, link := newLink(t, address)
	end := runLink(t, link)
	applier := collector.NewApplier()
	push := func(n int) {
		for range n {
			if r := applier.Apply(&metric.Sample{Name: []byte("jobs"), Kind: metric.Counter, Op: metric.Add, Whole: 1}); r != metric.Applied {
				t.Fatal(r)
			}
		}
	}
	eventually := func(done func() bool) {
		for !done() {
			time.Sleep(5 * time.Millisecond)
		}
	}
	push(10)
	eventually(func() bool { return table.sum("jobs") == 10 })
	bad := &metric.Sample{Name: []byte("bad"), Kind: metric.Counter, Op: metric.Add, Whole: 1}
	eventually(func() bool { return applier.Apply(bad) == metric.OverLimit })
	eventually(func() bool { return collector.Held() == 0 })
	s.end()
	push(10)
	serve(t, address, table.parts()) // it has forgotten how far the agent is, as after a kill
	eventually(func() bool { return table.sum("jobs") >= 20 })
	push(10)
	end()
	if got := table.sum("jobs"); got != 30 {
		t.Errorf("jobs is %v, want 30", got)
	}
}

// An agent that has much to tell, most of which is rejected, hears the rejections while it tells.
func TestManyRejectionsOfMuch(t *testing.T) {
	table := durableTable()
	table.reject["bad"] = metric.OverLimit
	parts := table.parts()
	parts.Explain = func(metric.Reason, *metric.Sample) string { return strings.Repeat("why ", 50) }
	s := serve(t, "127.0.0.1:0", parts)
	collector, link := newLink(t, s.Addr().String())
	applier := collector.NewApplier()
	const series = 20_000
	for i := range series {
		tags := fmt.Appendf(nil, "i:%d,%s", i, strings.Repeat("x", 300))
		if r := applier.Apply(&metric.Sample{Name: []byte("bad"), Tags: tags, Kind: metric.Counter, Op: metric.Add, Whole: 1}); r != metric.Applied {
			t.Fatal(r)
		}
	}
	end := runLink(t, link)
	for collector.Held() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	end()
	if got := table.counted(); got != fmt.Sprintf("limit %d", series) {
		t.Error(got)
	}
}

// stays checks that the next acknowledgements are of a number.
func (c *client) stays(number uint64) {
	c.t.Helper()
	for range 3 {
		if a := c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil }).GetAck(); a.Number != number {
			c.t.Fatalf("acknowledged %d, want %d", a.Number, number)
		}
	}
}

// A flush that begins while a frame is applied does not know of the blocks that the frame makes, so it does not include the frame.
func TestFlushDuringAFrame(t *testing.T) {
	t.Parallel() // it waits for acknowledgements
	table := newTable()
	table.during = func() {
		time.Sleep(time.Millisecond)
		table.durable = time.Now()
		time.Sleep(time.Millisecond)
	}
	s := serve(t, "127.0.0.1:0", table.parts())
	c, _ := s.hello(7)
	c.frame(1, add(1, 1))
	c.stays(0)
	table.flushed(0)
	c.acked(1)
}

// What waited for its sender is acknowledged once that is on disk, and not with the rest of its frame.
func TestWhatWaitedIsOnDisk(t *testing.T) {
	t.Parallel() // it waits for acknowledgements
	table := newTable()
	known := &senders{pods: map[netip.Addr]*metric.Pod{}}
	parts := table.parts()
	parts.Senders, parts.NodeOf = known, func(*metric.Pod) string { return "a" }
	s := serve(t, "127.0.0.1:0", parts)
	c, _ := s.hello(7)
	c.frame(1, add(1, 1))
	for table.counted() != "held 1" {
		time.Sleep(time.Millisecond)
	}
	c.stays(0)
	table.flushed(0)
	known.put(netip.AddrFrom4([4]byte{10, 0, 0, 1}), &metric.Pod{Name: "late"})
	for table.counted() != "held 1, settled applied 1" {
		time.Sleep(time.Millisecond)
	}
	c.stays(0)
	table.flushed(0)
	c.acked(1)
}

// sendless is a stream whose agent hears nothing.
type sendless struct {
	grpc.BidiStreamingServer[agentwire.FromAgent, agentwire.FromServer]
}

func (sendless) Send(*agentwire.FromServer) error { return nil }

// A change waits for its sender for half a minute. An outage of the API server does not count, up to ten minutes, unless too much
// waits at the server.
func TestWaitsInAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		outage  time.Duration // from the beginning on
		known   time.Duration // when the sender is
		others  int64         // bytes that wait elsewhere
		want    string
		atLeast time.Duration // how long it waits
	}{
		"no outage":                    {0, time.Hour, 0, "settled identity 1", maxWait},
		"known after the outage":       {5 * time.Minute, 5*time.Minute + 20*time.Second, 0, "settled applied 1", 5*time.Minute + 20*time.Second},
		"not known after the outage":   {5 * time.Minute, time.Hour, 0, "settled identity 1", 5*time.Minute + maxWait - time.Second},
		"a long outage":                {time.Hour, time.Hour, 0, "settled identity 1", maxOutageWait},
		"much waits in the outage":     {5 * time.Minute, time.Hour, maxOutageBytes, "settled identity 1", maxWait},
		"much waits without an outage": {0, 20 * time.Second, maxOutageBytes, "settled applied 1", 20 * time.Second},
	} {
		table, passed, began := newTable(), time.Duration(0), time.Now()
		address := netip.AddrFrom4([4]byte{10, 0, 0, 1})
		known := &senders{pods: map[netip.Addr]*metric.Pod{}}
		parts := table.parts()
		parts.Senders, parts.NodeOf = known, func(*metric.Pod) string { return "a" }
		parts.Blind = func() (time.Time, string, bool) { return began, "a test", passed < c.outage }
		s := serve(t, "127.0.0.1:0", parts)
		s.waits.Store(c.others)
		one := newStream(s.Server, sendless{}, "a", "", &agentwire.Hello{Run: 7})
		one.run, one.of = &run{node: "a"}, &node{}
		d := &definition{number: 1, uses: 1, address: address, sample: metric.Sample{Name: []byte("c1"), Kind: metric.Counter}}
		if r, why := one.wait(&waiting{1, 0, d, add(1, 1), began, began}); r != metric.Pending {
			t.Fatal(r, why)
		}
		for ; len(one.waiting) > 0; passed += time.Second {
			if passed == c.known {
				known.put(address, &metric.Pod{Name: "late"})
			}
			must(t, one.settle(began.Add(passed)))
		}
		if got := table.counted(); got != "held 1, "+c.want || passed-time.Second != c.atLeast || s.waits.Load() != c.others {
			t.Errorf("%s: %s after %v, and %d bytes wait; want %s after %v", name, got, passed-time.Second, s.waits.Load(), c.want, c.atLeast)
		}
	}
}

// A frame that is late by a little more than the one before counts no earlier: a gauge's newer value would be taken for the older one.
func TestALateFrameAfterOneInTime(t *testing.T) {
	table := durableTable()
	s := serve(t, "127.0.0.1:0", table.parts())
	c, _ := s.hello(7)
	send := func(number uint64, age time.Duration) {
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: number, AgeNanos: int64(age),
			Series:  []*agentwire.Series{{Number: 1, Name: []byte("g"), Kind: uint32(metric.Gauge)}},
			Changes: []*agentwire.Change{{Series: 1, Samples: 1, Op: agentwire.Op_ASSIGN, Whole: int64(number)}}}}})
	}
	began := time.Now()
	send(1, time.Hour)
	send(2, 0)
	send(3, time.Second)
	c.acked(3)
	table.mu.Lock()
	defer table.mu.Unlock()
	if len(table.arrived) == 0 || time.Since(table.arrived[0]) < time.Hour {
		t.Fatalf("the first frame counts as of %v", table.arrived)
	}
	for _, at := range table.arrived[1:] {
		if at.Before(began.Add(recordedAfter)) {
			t.Errorf("a frame after one that counted as of now counts as of %v, %v after the start", at, at.Sub(began))
		}
	}
}

// toldNodes are told which nodes have an agent; node "elsewhere" has one at another server.
type toldNodes struct{ came, left chan string }

func (n toldNodes) Came(node string)     { n.came <- node }
func (n toldNodes) Left(node string)     { n.left <- node }
func (n toldNodes) Has(node string) bool { return node == "elsewhere" }

// A node has an agent as long as one of its agents is connected, whichever came first. Other servers are told of it, and tell of theirs.
func TestTwoAgentsOfANode(t *testing.T) {
	t.Parallel() // it waits for acknowledgements
	parts, told := newTable().parts(), toldNodes{make(chan string, 9), make(chan string, 9)}
	parts.Nodes = told
	s := serve(t, "127.0.0.1:0", parts)
	older, _ := s.hello(7)
	newer, _ := s.hello(8)
	must(t, newer.CloseSend())
	for _, err := newer.Recv(); err == nil; {
		_, err = newer.Recv()
	}
	older.frame(1, add(1, 1))
	older.stays(0) // the stream lives
	if !s.hasAgent("a") || !s.hasAgent("elsewhere") || s.hasAgent("b") {
		t.Error("the node of a connected agent has none, or one that has none has one")
	}
	s.mu.Lock()
	stopped := s.nodes["a"].stopped
	s.mu.Unlock()
	if stopped {
		t.Error("the node's agent has stopped, as the former one said that it ends")
	}
	if n := len(told.left); <-told.came != "a" || n != 0 {
		t.Errorf("other servers are told %d ends while an agent is connected", n)
	}
	_ = older.CloseSend()
	if node := <-told.left; node != "a" {
		t.Errorf("other servers are told that node %s has no agent any more", node)
	}
}

// A stream that an agent keeps until all of its former reports are acknowledged takes the node from no other server.
func TestARestTakesNoNode(t *testing.T) {
	parts, told := newTable().parts(), toldNodes{make(chan string, 9), make(chan string, 9)}
	parts.Nodes = told
	c := serve(t, "127.0.0.1:0", parts).dial(t.Context())
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "a", Run: 7, Rest: true}}})
	c.next(func(a *agentwire.FromServer) bool { return a.GetWelcome() != nil })
	if n := len(told.came); n != 0 {
		t.Errorf("other servers are told %d times that the node is here", n)
	}
}

// A node is shown with what its agent has told, for as long as it shows a token again, and as cut off afterwards, unless the agent had
// said that it ends.
func TestNodes(t *testing.T) {
	table := durableTable()
	table.reject["c2"] = metric.OverLimit
	parts := table.parts()
	parts.Explain = func(metric.Reason, *metric.Sample) string { return "it is full" }
	var came []string
	parts.Came = func(node string) { came = append(came, node) }
	s := serve(t, "127.0.0.1:0", parts)
	is := func(state State, since time.Time) Node {
		t.Helper()
		all := s.Nodes()
		if len(all) != 1 || all[0].State != state || !since.IsZero() && !all[0].Since.Equal(since) {
			t.Fatalf("%+v, want one with state %d since %v", all, state, since)
		}
		return all[0]
	}
	hello := func(run uint64) (*client, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		c := s.dial(ctx)
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "a", Run: run}}})
		c.next(func(a *agentwire.FromServer) bool { return a.GetWelcome() != nil })
		return c, cancel
	}
	gone := func() {
		for there := true; there; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			there = s.nodes["a"].streams > 0
			s.mu.Unlock()
		}
	}
	ago := func(d time.Duration) time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.nodes["a"].left = time.Now().Add(-d)
		return s.nodes["a"].left
	}
	if len(s.Nodes()) > 0 {
		t.Error("there are nodes before a stream")
	}
	c, cut := hello(7)
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 1, AgeNanos: int64(70 * time.Millisecond)}}})
	c.frame(2, add(1, 5), add(2, 3))
	c.acked(2)
	began := is(Connected, time.Time{})
	if began.Name != "a" || began.Series != 5 || began.Samples != 8 || began.Rejected != 3 || began.Reason != metric.OverLimit || began.Why != "it is full" ||
		began.Lag != 0 || began.LastFrame.Before(began.Since) {
		t.Errorf("%+v", began)
	}
	cut()
	gone()
	is(Connected, began.Since)
	_, cut = hello(7)
	is(Connected, began.Since) // a short break is none
	cut()
	gone()
	is(CutOff, ago(shortBreak+time.Second))
	c, cut = hello(7)
	if n := is(Connected, time.Time{}); n.Since.Equal(began.Since) || n.Samples != 8 {
		t.Errorf("%+v after a break", n)
	}
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 3, Last: true}}})
	c.acked(3)
	cut()
	gone()
	is(Stopped, ago(time.Second))
	c, cut = hello(7)
	if err := c.CloseSend(); err != nil { // it has nothing left to tell
		t.Fatal(err)
	}
	gone()
	cut()
	is(Stopped, ago(time.Second))
	s.mu.Lock()
	s.swept = time.Time{}
	s.nodes["a"].left = time.Now().Add(-forgetRun - time.Second)
	s.sweep()
	s.mu.Unlock()
	if len(s.Nodes()) > 0 {
		t.Error("a node is shown for ever")
	}
	_, cut = hello(8)
	defer cut()
	if len(came) != 2 || came[0] != "a" || came[1] != "a" {
		t.Errorf("%v came, want one for each run", came)
	}
}

// A node's streams are bounded in number and in bytes, all runs together, and no agent goes on with a run of another node's.
func TestMemoryOfANode(t *testing.T) {
	parts := newTable().parts()
	node, of := "a", func(netip.Addr) *metric.Sender { return nil }
	parts.Senders, parts.NodeOf, parts.HasPod = sendersFunc(of), func(*metric.Pod) string { return "a" }, func(string) bool { return true }
	parts.Authenticate = func(context.Context, string) (string, string, string, error) { return node, "pod", "", nil }
	s := serve(t, "127.0.0.1:0", parts)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer x")
	hello := func(run uint64) *client {
		c := s.dial(ctx)
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Run: run}}})
		return c
	}
	welcome := func(a *agentwire.FromServer) bool { return a.GetWelcome() != nil }
	var all []*client
	for run := range uint64(maxStreams) {
		c := hello(run + 1)
		c.next(welcome)
		all = append(all, c)
	}
	hello(100).fails(codes.ResourceExhausted, "the node has 8 streams")
	node = "b"
	hello(1).fails(codes.PermissionDenied, "another node")
	hello(101).next(welcome)
	frame := func(c *client, number uint64) {
		_ = c.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: number, Series: []*agentwire.Series{
			{Number: uint32(number), Kind: uint32(metric.Counter), Name: make([]byte, 7<<20), Address: []byte{10, 0, 0, 1}}}}}})
	}
	for i := range uint64(6) {
		for _, c := range all[:3] {
			frame(c, i+1)
		}
	}
	held := func(want func(int64) bool) {
		t.Helper()
		for {
			s.mu.Lock()
			n := s.nodes["a"].held.Load()
			s.mu.Unlock()
			if want(n) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	held(func(n int64) bool { return n > 18*7<<20 })
	for i := range uint64(8) {
		frame(all[3], i+1)
	}
	all[3].fails(codes.ResourceExhausted, "the series of the node's streams")
	for _, c := range all {
		_ = c.CloseSend()
	}
	held(func(n int64) bool { return n == 0 })
}

type sendersFunc func(netip.Addr) *metric.Sender

func (f sendersFunc) Sender(a netip.Addr) *metric.Sender { return f(a) }

// What a stream defines, and what waits for its sender, is bounded in bytes.
func TestMemoryOfAStream(t *testing.T) {
	for name, f := range map[string]struct {
		frame func(uint64) *agentwire.Frame
		ends  string
	}{
		"the series of the stream": {func(i uint64) *agentwire.Frame {
			return &agentwire.Frame{Number: i, Series: []*agentwire.Series{{Number: uint32(i), Kind: uint32(metric.Counter), Name: make([]byte, 4<<20), Address: []byte{10, 0, 0, 1}}}}
		}, "the series of the stream"},
		"waiting": {func(i uint64) *agentwire.Frame {
			return &agentwire.Frame{Number: i, Series: []*agentwire.Series{{Number: 1, Kind: uint32(metric.Set), Name: []byte("s"), Address: []byte{10, 0, 0, 1}}},
				Changes: []*agentwire.Change{{Series: 1, Samples: 1, Op: agentwire.Op_INSERT, Members: [][]byte{make([]byte, 4<<20)}}}}
		}, ""},
		"quantiles of 0, which have two bytes each": {func(i uint64) *agentwire.Frame {
			f := &agentwire.Frame{Number: i, Series: []*agentwire.Series{{Number: 1, Kind: uint32(metric.Timer), Name: []byte("t"), Address: []byte{10, 0, 0, 1}}}}
			for range (4 << 20) / (quantileBytes * metric.MaxQuantiles) {
				f.Changes = append(f.Changes, &agentwire.Change{Series: 1, Samples: 1, Op: agentwire.Op_MERGE,
					Histogram: agentwire.HistogramOf(&metric.Histogram{Quantiles: make([]metric.Quantile, metric.MaxQuantiles)})})
			}
			return f
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			parts := table.parts()
			parts.Senders, parts.NodeOf = &senders{pods: map[netip.Addr]*metric.Pod{}}, func(*metric.Pod) string { return "a" }
			s := serve(t, "127.0.0.1:0", parts)
			c, _ := s.hello(7)
			most := uint64(maxDefinedBytes)
			if f.ends == "" {
				most = maxWaitingBytes
			}
			for i := range most/(4<<20) + 1 {
				if c.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f.frame(i + 1)}}) != nil {
					break
				}
			}
			if f.ends != "" {
				c.fails(codes.ResourceExhausted, f.ends)
				return
			}
			r := c.next(func(a *agentwire.FromServer) bool { return a.GetRejection() != nil }).GetRejection()
			if r.Reason != "identity" || !strings.Contains(r.Words, "too much waits") {
				t.Errorf("%v", r)
			}
		})
	}
}

// What an agent sent while the server stood still is older than it says, and may be of the former holder of an address: it comes
// again on another stream, with its age.
func TestAServerThatStoodStill(t *testing.T) {
	table := durableTable()
	s := serve(t, "127.0.0.1:0", table.parts())
	s.standstill = time.Hour // whatever the machine does
	table.during = func() { s.standstill = 0 }
	c, _ := s.hello(7)
	c.frame(1, add(1, 1))
	c.frame(2, add(1, 10))
	c.fails(codes.Aborted, "the server stood still")
	if got := table.sum("c1"); got != 1 {
		t.Errorf("c1 is %v: the second frame counts", got)
	}
	for s.hasStream() {
		time.Sleep(time.Millisecond)
	}
	s.standstill, table.during = time.Hour, nil
	again, applied := s.hello(7)
	if applied != 1 {
		t.Errorf("applied %d", applied)
	}
	again.frame(2, add(1, 10))
	again.acked(2)
	if got := table.sum("c1"); got != 11 {
		t.Errorf("c1 is %v", got)
	}
}

func (s *served) hasStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.streams > 0 {
			return true
		}
	}
	return false
}

// The agent is told to reject a series, and not for one bad value of it.
func TestRejectionsThatAreTold(t *testing.T) {
	table := newTable()
	table.reject["c1"], table.reject["c2"], table.reject["c3"], table.reject["c4"] = metric.BadValue, metric.BadRate, metric.Outdated, metric.OverLimit
	s := serve(t, "127.0.0.1:0", table.parts())
	c, _ := s.hello(7)
	c.frame(1, add(1, 1), add(2, 1), add(3, 1), add(4, 1))
	for heard := false; ; {
		answer := c.next(func(*agentwire.FromServer) bool { return true })
		if r := answer.GetRejection(); r != nil {
			if heard = r.Series == 4; !heard {
				t.Errorf("told %v", r)
			}
		} else if heard {
			break
		}
	}
	if got := table.counted(); got != "limit 1, outdated 1, rate 1, value 1" {
		t.Error(got)
	}
}

// Of a change whose later value is rejected, the values before it are applied, and count so.
func TestChangesThatAreAppliedInPart(t *testing.T) {
	table := newTable()
	seen := 0
	table.during = func() {
		if seen++; seen == 3 {
			table.reject["t1"] = metric.OverLimit
		}
	}
	parts := table.parts()
	listed := make(chan uint64, 1)
	parts.Rejected = func(_ metric.Reason, _ *metric.Sample, n uint64, _ string) { listed <- n }
	s := serve(t, "127.0.0.1:0", parts)
	c, _ := s.hello(7)
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: 1,
		Changes: []*agentwire.Change{{Series: 1, Samples: 5, Op: agentwire.Op_OBSERVE, Values: []float64{1, 1, 1, 1, 1}}},
		Series:  []*agentwire.Series{{Number: 1, Name: []byte("t1"), Kind: uint32(metric.Timer)}}}}})
	if n := <-listed; n != 3 || table.counted() != "applied 2, limit 3" || table.sum("t1") != 2 {
		t.Errorf("%d are listed as rejected, of %s; the sum is %v", n, table.counted(), table.sum("t1"))
	}
}

// Of a flood of rejected changes, which a hostile agent's frame may have, few are listed and get words. The lists count all, and
// the node shows words.
func TestAFloodOfRejectedChangesIsSampled(t *testing.T) {
	const changes = 10_000
	parts := newTable().parts()
	listed, counted, worded := 0, 0, 0
	parts.Rejected = func(_ metric.Reason, _ *metric.Sample, n uint64, _ string) { listed++; counted += int(n) }
	parts.Explain = func(metric.Reason, *metric.Sample) string { worded++; return "of its rate" }
	s := serve(t, "127.0.0.1:0", parts)
	s.rejected[metric.BadRate].Interval = time.Hour // a second of the test's
	one := newStream(s.Server, sendless{}, "a", "", &agentwire.Hello{Run: 7})
	one.of = &node{}
	d := &definition{number: 1, sample: metric.Sample{Name: []byte("t1"), Kind: metric.Timer}}
	one.series[1] = d
	all := make([]rejection, changes)
	for i := range all {
		all[i] = rejection{series: d, reason: metric.BadRate, samples: 2}
	}
	must(t, one.tell(all))
	if listed > 1100 || worded > listed || counted > 2*changes || counted < 2*(changes-1024) {
		t.Errorf("of %d changes %d are listed, for %d samples, and %d got words", changes, listed, counted, worded)
	}
	if told := one.of.shown("a"); told.Rejected != 2*changes || told.Reason != metric.BadRate || told.Why != "of its rate" {
		t.Errorf("the node shows %+v", told)
	}
}

// What the former holder of an address pushed is not listed for the pod that has it now, and has the agent reject nothing of that
// one's. What that pod pushes itself is.
func TestRejectionsOfTheFormerHolder(t *testing.T) {
	table := newTable()
	table.reject["c2"] = metric.OverLimit
	address := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }
	next := &metric.Pod{Name: "next", Created: time.Now().Add(-10 * time.Second).Unix()}
	parts := table.parts()
	parts.Senders, parts.NodeOf = &senders{pods: map[netip.Addr]*metric.Pod{address(1): next, address(2): next}}, func(*metric.Pod) string { return "a" }
	parts.IsFormer = func(*metric.Sample) bool { return false }
	listed := make(chan string, 10)
	parts.Rejected = func(_ metric.Reason, s *metric.Sample, n uint64, _ string) {
		name := "nobody"
		if s.Sender != nil {
			name = s.Sender.Pod.Name
		}
		listed <- fmt.Sprintf("%d of %s by %s", n, s.Name, name)
	}
	s := serve(t, "127.0.0.1:0", parts)
	for i, again := range []bool{false, true} { // also of a frame that comes again
		table.mu.Lock()
		if again {
			table.restored = 1
		}
		table.mu.Unlock()
		c, _ := s.hello(7 + uint64(i))
		f := &agentwire.Frame{Number: 1, AgeNanos: int64(time.Minute), FirstNanos: int64(time.Minute), Changes: []*agentwire.Change{add(1, 5)},
			Series: []*agentwire.Series{{Number: 1, Name: []byte("c1"), Kind: uint32(metric.Counter), Address: []byte{10, 0, 0, 1}}}}
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}})
		heard := func() *agentwire.Rejection {
			return c.next(func(a *agentwire.FromServer) bool { return a.GetRejection() != nil }).GetRejection()
		}
		if r := heard(); r.ForNanos != 0 || !strings.Contains(r.Words, "another pod had the address 10.0.0.1") {
			t.Errorf("told %v", r)
		}
		if got := <-listed; got != "5 of c1 by nobody" {
			t.Error(got)
		}
		c.frame(2, add(1, 1), add(2, 1))
		if r := heard(); r.Series != 2 || r.ForNanos != int64(rejectFor) {
			t.Errorf("told %v", r)
		}
		if got := <-listed; got != "1 of c2 by next" {
			t.Error(got)
		}
	}
	if got := table.sum("c1"); got != 2 {
		t.Errorf("c1 is %v, want 2", got)
	}
}

// A number means a series on its stream alone: what waited since a former stream and is rejected has the agent reject no series that
// has the number now.
func TestRejectionsOfAFormerStream(t *testing.T) {
	table := durableTable()
	table.reject["c1"] = metric.OverLimit
	address := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }
	known := &senders{pods: map[netip.Addr]*metric.Pod{address(2): {Name: "good"}}}
	parts := table.parts()
	parts.Senders, parts.NodeOf = known, func(*metric.Pod) string { return "a" }
	s := serve(t, "127.0.0.1:0", parts)
	frame := func(c *client, number uint64, name string, from byte) {
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: number, Changes: []*agentwire.Change{add(1, 1)},
			Series: []*agentwire.Series{{Number: 1, Name: []byte(name), Kind: uint32(metric.Counter), Address: []byte{10, 0, 0, from}}}}}})
	}
	former, _ := s.hello(7)
	frame(former, 1, "c1", 1)
	for table.counted() != "held 1" {
		time.Sleep(time.Millisecond)
	}
	c, _ := s.hello(7)
	frame(c, 2, "c2", 2)
	for table.sum("c2") != 1 {
		time.Sleep(time.Millisecond)
	}
	known.put(address(1), &metric.Pod{Name: "late"})
	for acked := false; !acked; {
		answer := c.next(func(*agentwire.FromServer) bool { return true })
		if r := answer.GetRejection(); r != nil {
			t.Errorf("told %v, which is c2's number now", r)
		}
		acked = answer.GetAck().GetNumber() == 2 // it follows the rejection
	}
	if got := table.counted(); got != "applied 1, held 1, settled limit 1" {
		t.Error(got)
	}
}

// A frame that was long in the making has samples of before an object, or its namespace, was created: they were about the former one
// of the name. A short one counts as of its age, whatever the table makes of that.
func TestLongFramesAboutNamesThatChangedHands(t *testing.T) {
	table := newTable()
	forwarder := &metric.Pod{Name: "forwarder", Created: time.Now().Add(-time.Hour).Unix()}
	created := time.Now().Add(-10 * time.Second)
	parts := table.parts()
	parts.Senders, parts.NodeOf = &senders{pods: map[netip.Addr]*metric.Pod{netip.AddrFrom4([4]byte{10, 0, 0, 1}): forwarder}}, func(*metric.Pod) string { return "a" }
	parts.IsFormer = func(s *metric.Sample) bool { return s.ArrivedBefore(created) }
	s := serve(t, "127.0.0.1:0", parts)
	c, _ := s.hello(7)
	send := func(number uint64, first, age time.Duration) {
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: &agentwire.Frame{Number: number, FirstNanos: int64(first), AgeNanos: int64(age),
			Changes: []*agentwire.Change{add(1, 5)}, Series: []*agentwire.Series{{Number: 1, Name: []byte("c1"), Kind: uint32(metric.Counter), Address: []byte{10, 0, 0, 1}}}}}})
	}
	send(1, time.Minute, 0)
	if r := c.next(func(a *agentwire.FromServer) bool { return a.GetRejection() != nil }).GetRejection(); r.Reason != "identity" || r.ForNanos != 0 || !strings.Contains(r.Words, "was created after") {
		t.Errorf("told %v", r)
	}
	send(2, 5*time.Second, 0)
	send(3, time.Second, 0)
	for table.counted() != "applied 10, identity 5" {
		time.Sleep(time.Millisecond)
	}
}

// A change is of the series that its number meant when its frame came, also where frames wait to be applied at once.
func TestNumbersOfFramesAfterARestore(t *testing.T) {
	table := newTable()
	table.restored = 4
	s := serve(t, "127.0.0.1:0", table.parts())
	c, _ := s.hello(7)
	c.frame(1, add(1, 1), add(2, 1))
	send := func(f *agentwire.Frame) {
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}})
	}
	send(&agentwire.Frame{Number: 2, Forgotten: []uint32{1}})
	send(&agentwire.Frame{Number: 3, Series: []*agentwire.Series{{Number: 2, Name: []byte("another"), Kind: uint32(metric.Counter)}}})
	send(&agentwire.Frame{Number: 4, Changes: []*agentwire.Change{add(2, 5)}})
	for table.sum("another") != 5 {
		time.Sleep(time.Millisecond)
	}
	if a, b := table.sum("c1"), table.sum("c2"); a != 1 || b != 1 {
		t.Errorf("c1 %v, c2 %v", a, b)
	}
}

// Frames that come again wait for all their senders together.
func TestFramesAfterARestoreWaitForSenders(t *testing.T) {
	t.Parallel() // it waits for acknowledgements
	table := newTable()
	table.restored = 2
	known := &senders{pods: map[netip.Addr]*metric.Pod{{}: nil}}
	parts := table.parts()
	parts.Senders, parts.NodeOf = known, func(*metric.Pod) string { return "a" }
	s := serve(t, "127.0.0.1:0", parts)
	s.againWait = time.Hour
	known.put(netip.AddrFrom4([4]byte{10, 0, 0, 2}), &metric.Pod{Name: "known"})
	c, _ := s.hello(7)
	c.frame(1, add(1, 1), add(2, 1))
	c.frame(2, add(2, 1))
	c.frame(3, add(2, 1))
	c.stays(0)
	if got := table.sum("c2"); got != 0 {
		t.Errorf("%v is applied before all senders are known", got)
	}
	known.put(netip.AddrFrom4([4]byte{10, 0, 0, 1}), &metric.Pod{Name: "late"})
	for table.sum("c1") != 1 || table.sum("c2") != 3 {
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(table.frames, []uint64{1, 2, 3}) {
		t.Error(table.frames)
	}
}

// A stream for the rest of a run ends no other one, and the server says who it is.
func TestTheRestOfARun(t *testing.T) {
	parts := newTable().parts()
	parts.Name, parts.Epoch, parts.Awaited = "sluice-1", 77, []uint64{7}
	s := serve(t, "127.0.0.1:0", parts)
	rest := func() *client {
		c := s.dial(context.Background())
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "a", Run: 7, Rest: true}}})
		return c
	}
	first := rest()
	welcome := first.next(func(a *agentwire.FromServer) bool { return a.GetWelcome() != nil }).GetWelcome()
	if welcome.Name != "sluice-1" || welcome.Epoch != 77 {
		t.Errorf("the server is %s, %d", welcome.Name, welcome.Epoch)
	}
	if ok, _ := s.Answers(); ok {
		t.Error("the server answers before it has heard the rest")
	}
	first.frame(4) // the last of the rest is empty, and of now
	for ok := false; !ok; ok, _ = s.Answers() {
		time.Sleep(time.Millisecond)
	}
	main, applied := s.hello(7)
	first.fails(codes.Aborted, "connected again")
	if applied != 4 {
		t.Errorf("applied %d, want 4", applied)
	}
	rest().fails(codes.Aborted, "another stream")
	main.frame(5, add(1, 5))
	main.acked(0)
}

// A question is answered at once, not with the next tick.
func TestQuestions(t *testing.T) {
	s := serve(t, "127.0.0.1:0", newTable().parts())
	c, _ := s.hello(7)
	for range 100 { // a tick acknowledges once in two seconds
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Ping{Ping: &agentwire.Ping{}}})
		c.acked(0)
	}
}

// A server that ends acknowledges all that it has applied, and says that it will apply no more. It does not say so where its table may
// include a part of what is still to come.
func TestTheEndOfAServer(t *testing.T) {
	for name, restored := range map[string]uint64{"": 0, "a part is restored": 9} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			table.restored = restored
			s := serve(t, "127.0.0.1:0", table.parts())
			c, _ := s.hello(7)
			c.frame(1, add(1, 5))
			c.frame(2, add(1, 5))
			for s.count.frames.Load() < 2 {
				time.Sleep(time.Millisecond)
			}
			go s.end()
			var last *agentwire.Ack
			for {
				answer, err := c.Recv()
				if err != nil {
					if status.Code(err) != codes.Unavailable {
						t.Error(err)
					}
					break
				}
				last = answer.GetAck()
			}
			if last == nil || last.Final != (restored == 0) || last.Final && last.Number != 2 {
				t.Errorf("the last acknowledgement is %v", last)
			}
		})
	}
}

// What was published is told, as far as it was applied before.
func TestWhatWasPublished(t *testing.T) {
	parts := newTable().parts()
	var published atomic.Pointer[time.Time]
	published.Store(new(time.Time))
	parts.Published = func() time.Time { return *published.Load() }
	s := serve(t, "127.0.0.1:0", parts)
	c, _ := s.hello(7)
	c.frame(1, add(1, 5))
	c.frame(2, add(1, 5))
	if a := c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil }).GetAck(); a.Published != 0 {
		t.Errorf("frame %d was published", a.Published)
	}
	later := time.Now().Add(time.Hour)
	published.Store(&later)
	c.next(func(a *agentwire.FromServer) bool {
		return a.GetAck() != nil && a.GetAck().Published == 2 && a.GetAck().Number == 0
	})
}

// An agent moves to another server when its own is silent, and tells the former one the rest when that is back.
func TestALinkMoves(t *testing.T) {
	tables, servers := map[string]*table{}, map[string]*served{}
	var addresses []string
	start := func(name, address string) {
		parts := tables[name].parts()
		parts.Name, parts.Epoch = name, uint64(len(name))
		servers[name] = serve(t, address, parts)
	}
	for _, name := range []string{"a", "bb"} {
		tables[name] = newTable() // nothing is on disk
		start(name, "127.0.0.1:0")
		addresses = append(addresses, servers[name].Addr().String())
	}
	collector, link := newLink(t, strings.Join(addresses, ","))
	end := runLink(t, link)
	applier := collector.NewApplier()
	push := func(n int) {
		for range n {
			applier.Apply(&metric.Sample{Name: []byte("jobs"), Kind: metric.Counter, Op: metric.Add, Whole: 1})
		}
	}
	push(10)
	var own, other string
	for own == "" {
		switch {
		case tables["a"].sum("jobs") == 10:
			own, other = "a", "bb"
		case tables["bb"].sum("jobs") == 10:
			own, other = "bb", "a"
		}
		time.Sleep(time.Millisecond)
	}
	// It stands still in the middle of a sample.
	stands, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	tables[own].mu.Lock()
	tables[own].during = func() { once.Do(func() { close(stands) }); <-hold }
	tables[own].mu.Unlock()
	push(5)
	<-stands
	pushed := 15
	for ; tables[other].sum("jobs") == 0; pushed++ {
		push(1)
		time.Sleep(10 * time.Millisecond)
	}
	close(hold)
	for _, name := range []string{own, other} {
		_ = tables[name].parts().Sync(context.Background())
	}
	for collector.Held() > 0 {
		time.Sleep(time.Millisecond)
	}
	end()
	if a, b := tables[own].sum("jobs"), tables[other].sum("jobs"); a < 15 || a+b != float64(pushed) {
		t.Errorf("the first server has %v, the second one %v; %d were pushed", a, b, pushed)
	}
}

// What lists show of a rejection has no secret that a client sent by mistake.
func TestSecretsOfRejections(t *testing.T) {
	var n node
	n.rejected(&rejection{why: `metric "login?password=hunter2" is rejected`}, true)
	if got := n.shown("a").Why; !strings.Contains(got, "login") || strings.Contains(got, "hunter2") {
		t.Error(got)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
