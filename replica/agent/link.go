package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// frameEvery is the time between two frames; urgentAfter, between a frame and an urgent one; awayEvery, between two
	// frames while no server hears them; beatEvery, after which a frame is sent without a change.
	frameEvery  = 100 * time.Millisecond
	urgentAfter = 10 * time.Millisecond
	awayEvery   = time.Second
	beatEvery   = 5 * time.Second
	// silentAfter is the time without an acknowledgement, which comes every two seconds at least, after which the server is
	// taken for dead.
	silentAfter = 5 * time.Second
	// firstRetry and lastRetry bound the wait before the next connection.
	firstRetry, lastRetry = 100 * time.Millisecond, 2 * time.Second
	// logEvery is the least time between two logs of one kind.
	logEvery = 30 * time.Second
	// lastWords is how long an agent that stops waits until all is on the server's disk.
	lastWords = 10 * time.Second
)

// Link tells a server what a Collector collects. Make one with NewLink; Run runs it.
type Link struct {
	cfg       Config
	version   string
	run       uint64 // random
	collector *Collector
	usage     *Usage // nil: off
	log       *slog.Logger
	options   []grpc.DialOption

	stream     uint32 // number of connections so far
	number     uint32 // of the last series that was defined
	sent       uint64 // number of the last frame that was sent on this one
	frameAt    time.Time
	rejections ratelog.Limiter
	faults     ratelog.Limiter

	connected   atomic.Bool
	connections atomic.Uint64
	why         atomic.Pointer[string] // why there is no connection
}

// QuietGRPC silences gRPC's own log, which would have each failed try. It is for a process that has not used gRPC yet, after its
// packages have begun: one of them sets another log.
func QuietGRPC() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }

// NewLink prepares the connection. version is Sluice's.
func NewLink(cfg Config, version string, c *Collector, log *slog.Logger) (*Link, error) {
	l := &Link{cfg: cfg, version: version, run: rand.Uint64() | 1, collector: c, log: log}
	l.rejections.Interval, l.faults.Interval = logEvery, logEvery
	secure := insecure.NewCredentials()
	if !cfg.Insecure {
		roots, err := readAuthorities(cfg.CAFile)
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots})
	}
	l.options = []grpc.DialOption{grpc.WithTransportCredentials(secure), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: firstRetry, Multiplier: 1, MaxDelay: firstRetry}, MinConnectTimeout: silentAfter})}
	waiting := "no connection yet"
	l.why.Store(&waiting)
	return l, nil
}

// Tell has the link tell what is used. It is called before Run.
func (l *Link) Tell(u *Usage) { l.usage = u }

func readAuthorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // those of the system
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the authorities of the server cannot be read: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return roots, nil
}

// Run sends frames until ctx ends, then what is left, for lastWords at most.
func (l *Link) Run(ctx context.Context) error {
	until, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		l.collector.end(time.Now())
		time.AfterFunc(lastWords, end)
	})()
	wait := firstRetry
	for until.Err() == nil && !l.done(ctx) {
		began := time.Now()
		l.lost(l.connection(ctx, until))
		if time.Since(began) > lastRetry {
			wait = firstRetry
		}
		l.pause(ctx, until, time.Duration(rand.Int64N(int64(wait)))+1) // full jitter
		wait = min(2*wait, lastRetry)
	}
	if left := l.collector.Held(); left > 0 {
		l.log.Error("stopped with samples that no server has on disk", "samples", left, "server", l.cfg.Server)
	}
	return nil
}

// done reports whether the agent stops and has nothing left to tell.
func (l *Link) done(ctx context.Context) bool {
	return ctx.Err() != nil && l.collector.Held() == 0
}

// lost notes the end of a connection.
func (l *Link) lost(err error) {
	l.connected.Store(false)
	if err == nil {
		return // the agent stops
	}
	why := status.Convert(err).Message()
	l.why.Store(&why)
	if code := status.Code(err); code == codes.Canceled || code == codes.Aborted { // it connects again at once
		return
	}
	if suppressed, ok := l.faults.Allow(); ok {
		l.log.Warn("no connection to the server; samples are kept", "server", l.cfg.Server, "error", why,
			"held", l.collector.Held(), "suppressed", suppressed)
	}
}

// pause waits. Meanwhile changes become frames now and then, so that their times are told apart.
func (l *Link) pause(ctx, until context.Context, wait time.Duration) {
	if l.done(ctx) {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	each := time.NewTicker(awayEvery)
	defer each.Stop()
	for {
		select {
		case <-until.Done():
			return
		case <-timer.C:
			l.cutAway()
			return
		case <-each.C:
			l.cutAway()
		}
	}
}

// cutAway cuts a frame while no server hears it: once a second, every ten seconds from a quarter of the memory on, and not at all
// from half of it on, so that counters and gauges, whose changes merge, go on for any time.
func (l *Link) cutAway() {
	now, every := time.Now(), awayEvery
	switch used := l.collector.state(now).used; {
	case used > 0.5:
		return
	case used > 0.25:
		every = 10 * awayEvery
	}
	if now.Sub(l.frameAt) >= every {
		l.collector.cut(now)
		l.frameAt = now
	}
}

// frameEvery is the time between two frames that a server hears. The more of the memory waits for its disk, the fewer.
func (l *Link) frameEvery() time.Duration {
	if l.collector.state(time.Now()).used > 0.25 {
		return awayEvery
	}
	return frameEvery
}

// connection is one connection: until it fails, or ctx has ended and all is told. The error is nil in that case alone.
func (l *Link) connection(ctx, until context.Context) error {
	own, end := context.WithCancel(until)
	defer end()
	conn, err := grpc.NewClient("passthrough:///"+l.cfg.Server, l.options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	opening := time.AfterFunc(silentAfter, end) // until the welcome
	defer opening.Stop()
	said, err := l.token(own)
	if err != nil {
		return err
	}
	stream, err := agentwire.NewAgentsClient(conn).Report(said)
	if err != nil {
		return err
	}
	hello := &agentwire.Hello{Protocol: agentwire.Protocol, Version: l.version, Node: l.cfg.Node, Run: l.run}
	if err := stream.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: hello}}); err != nil {
		return failure(stream, err)
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	opening.Stop()
	welcome := answer.GetWelcome()
	if welcome == nil {
		return errors.New("the server did not begin with a welcome: it speaks another protocol")
	}
	l.stream++
	l.sent = welcome.Applied
	l.collector.takeUnwanted()
	l.connected.Store(true)
	l.connections.Add(1)
	l.log.Info("connected", "server", l.cfg.Server, "held", l.collector.Held())
	return l.talk(ctx, stream, end)
}

// token adds the token to the request.
func (l *Link) token(ctx context.Context) (context.Context, error) {
	if l.cfg.TokenFile == "" {
		return ctx, nil
	}
	token, err := os.ReadFile(l.cfg.TokenFile) // it is written anew before it expires
	if err != nil {
		return nil, fmt.Errorf("the token cannot be read: %w", err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), nil
}

// failure is the error of a stream that takes no more, before answers are received.
func failure(stream grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer], err error) error {
	if _, why := stream.Recv(); why != nil {
		return why
	}
	return err
}

// answers are what the server has said and the link has not heard yet. They take no more than the series of the stream: there is
// one acknowledgement, the last, and one rejection of each series.
type answers struct {
	come  chan struct{}
	ended chan error // why there are no more

	mu       sync.Mutex // guards the fields below
	acked    *agentwire.FromServer
	rejected map[uint32]*agentwire.FromServer
	renewed  []*agentwire.FromServer
}

// receive takes answers until the stream ends. It never waits for the link: the server reads no frame while nobody takes its answers.
// The stream ends if there is no answer for silentAfter.
func (a *answers) receive(stream grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer], end func()) {
	var silent atomic.Bool
	silence := time.AfterFunc(silentAfter, func() { silent.Store(true); end() })
	defer silence.Stop()
	for {
		answer, err := stream.Recv()
		if err != nil {
			if silent.Load() {
				err = fmt.Errorf("the server said nothing for %v", silentAfter)
			}
			a.ended <- err
			return
		}
		silence.Reset(silentAfter)
		a.mu.Lock()
		switch m := answer.Message.(type) {
		case *agentwire.FromServer_Ack:
			a.acked = answer
		case *agentwire.FromServer_Rejection:
			if len(a.rejected) < maxUnheard {
				a.rejected[m.Rejection.Series] = answer
			}
		case *agentwire.FromServer_Renewed:
			if len(a.renewed) < maxUnheard {
				a.renewed = append(a.renewed, answer)
			}
		}
		a.mu.Unlock()
		wake(a.come)
	}
}

// maxUnheard bounds the rejections that the link has not heard. The server repeats those of series that go on.
const maxUnheard = 1 << 17

// take returns what has come since the last call.
func (a *answers) take() (all []*agentwire.FromServer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acked != nil {
		all = append(all, a.acked)
	}
	all = slices.AppendSeq(all, maps.Values(a.rejected))
	all = append(all, a.renewed...)
	a.acked, a.renewed = nil, nil
	clear(a.rejected)
	return all
}

// talk sends frames and hears the answers.
func (l *Link) talk(ctx context.Context, stream grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer], end func()) error {
	said := &answers{come: make(chan struct{}, 1), ended: make(chan error, 1), rejected: map[uint32]*agentwire.FromServer{}}
	go said.receive(stream, end)
	numbered := map[uint32]*series{}
	each := time.NewTicker(time.Second)
	defer each.Stop()
	var due, urgent <-chan time.Time
	stopping := ctx.Done()
	wake(l.collector.dirty) // something may have changed before
	var measured chan struct{}
	if l.usage != nil {
		measured = l.usage.changed
		wake(measured)
	}
	for {
		if err := l.send(stream, numbered); err != nil {
			end() // if the stream has not ended: the error says less than its end
			return <-said.ended
		}
		if l.done(ctx) {
			return stream.CloseSend()
		}
		select {
		case <-stopping:
			stopping = nil // what is left is in frames: see Run
		case <-said.come:
			for _, answer := range said.take() {
				l.hear(answer, numbered)
			}
		case err := <-said.ended:
			return err
		case <-l.collector.dirty:
			due = time.After(max(l.frameEvery()-time.Since(l.frameAt), urgentAfter))
		case <-measured:
			if u := l.usage.newest(); u != nil {
				// If it fails, the stream has ended, which the next turn hears.
				_ = stream.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Usage{Usage: u}})
			}
		case <-l.collector.urgent:
			urgent = time.After(urgentAfter)
		case <-due:
			due = nil
			l.cut(time.Now())
		case <-urgent:
			urgent = nil
			l.cut(time.Now())
		case now := <-each.C:
			l.collector.sweep(now, l.stream)
			if now.Sub(l.frameAt) >= beatEvery {
				l.cut(now)
			}
		}
	}
}

// cut makes a frame of what changed, or an empty one after some time.
func (l *Link) cut(now time.Time) {
	made := l.collector.cut(now)
	if !made && now.Sub(l.frameAt) < beatEvery {
		return
	}
	if !made {
		l.collector.beat(now)
	}
	l.frameAt = now
}

// send sends the frames that were not sent on this connection.
func (l *Link) send(stream grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer], numbered map[uint32]*series) error {
	for _, f := range l.collector.after(l.sent) {
		w := &agentwire.Frame{Number: f.number, AgeNanos: int64(time.Since(f.made)), FirstNanos: int64(time.Since(f.began)), Last: f.last, Forgotten: l.collector.takeUnwanted()}
		for _, number := range w.Forgotten {
			delete(numbered, number)
		}
		for _, changed := range f.changes {
			d := changed.definition
			if changed.stream != l.stream {
				l.number++
				changed.stream, d.Number = l.stream, l.number
				numbered[d.Number] = changed.series
				w.Series = append(w.Series, d)
			}
			w.Changes = append(w.Changes, changed.wire(d.Number))
		}
		if err := stream.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: w}}); err != nil {
			return err
		}
		l.sent = f.number
	}
	return nil
}

// hear does what the server says.
func (l *Link) hear(answer *agentwire.FromServer, numbered map[uint32]*series) {
	switch m := answer.Message.(type) {
	case *agentwire.FromServer_Ack:
		l.collector.forget(m.Ack.Number)
	case *agentwire.FromServer_Renewed:
		if l.usage != nil {
			l.usage.renew(m.Renewed)
		}
	case *agentwire.FromServer_Rejection:
		r := m.Rejection
		one, reason := numbered[r.Series], metric.ReasonOf(r.Reason)
		if one == nil || reason == metric.Applied {
			return
		}
		l.collector.reject(one, reason, time.Now().Add(min(max(time.Duration(r.ForNanos), 0), time.Minute)))
		if suppressed, ok := l.rejections.Allow(); ok {
			l.log.Warn("the server rejects a series", "name", string(one.definition.Name), "tags", string(one.definition.Tags),
				"reason", r.Reason, "why", r.Words, "suppressed", suppressed)
		}
	}
}
