package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
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
	// With several servers, leastPatience is the time after a question to the server, of which askEvery is the least distance, after
	// which another one is taken; openWithin, the time to connect to one. A connection that was steadyAfter old was steady.
	leastPatience = 600 * time.Millisecond
	askEvery      = 300 * time.Millisecond
	openWithin    = 2 * time.Second
	steadyAfter   = 30 * time.Second
	// firstRetry and lastRetry bound the wait before the next connection.
	firstRetry, lastRetry = 100 * time.Millisecond, 2 * time.Second
	// logEvery is the least time between two logs of one kind.
	logEvery = 30 * time.Second
)

// Link tells servers what a Collector collects: one of them, and the rest of what the former ones were sent. Make one with NewLink;
// Run runs it.
type Link struct {
	cfg       Config
	version   string
	run       uint64 // random
	collector *Collector
	usage     *Usage  // nil: off
	scrape    *Scrape // nil: off
	log       *slog.Logger
	options   []grpc.DialOption
	servers   servers

	// Run's goroutine owns these two.
	frameAt  time.Time
	patience time.Duration // with a server that does not answer, if there are several

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
	l := &Link{cfg: cfg, version: version, run: rand.Uint64() | 1, collector: c, log: log, patience: leastPatience}
	l.rejections.Interval, l.faults.Interval = logEvery, logEvery
	secure := insecure.NewCredentials()
	if !cfg.Insecure {
		var err error
		if secure, err = newSecure(cfg.CAFile); err != nil {
			return nil, err
		}
	}
	l.options = []grpc.DialOption{grpc.WithTransportCredentials(secure), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: firstRetry, Multiplier: 1, MaxDelay: firstRetry}, MinConnectTimeout: silentAfter})}
	waiting := "no connection yet"
	l.why.Store(&waiting)
	return l, nil
}

// Tell has the link tell what is used. It is called before Run.
func (l *Link) Tell(u *Usage) { l.usage = u }

// Scrape has the link take targets and tell pages. It is called before Run.
func (l *Link) Scrape(s *Scrape) { l.scrape = s }

// Run sends frames until ctx ends, then what is left, for DeliveryTimeout at most.
func (l *Link) Run(ctx context.Context) error {
	until, end := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		l.collector.end(time.Now())
		time.AfterFunc(l.cfg.DeliveryTimeout, end)
	})()
	visits := make(chan struct{})
	go func() {
		defer close(visits)
		l.visit(until)
	}()
	wait := firstRetry
	for until.Err() == nil && !l.done(ctx) {
		began := time.Now()
		l.lost(l.report(ctx, until))
		if time.Since(began) > lastRetry {
			wait = firstRetry
		}
		l.pause(ctx, until, time.Duration(rand.Int64N(int64(wait)))+1) // full jitter
		wait = min(2*wait, lastRetry)
	}
	end()
	<-visits
	if left := l.collector.Held(); left > 0 {
		l.log.Error("stopped with samples that no server has on disk", "samples", left, "server", l.cfg.Server)
	}
	return nil
}

// report reports to a server, until it is lost.
func (l *Link) report(ctx, until context.Context) error {
	to, several, err := l.servers.pick(until, l.cfg.Server)
	if err != nil {
		return err
	}
	began := time.Now()
	err = l.connection(ctx, until, to, several)
	l.servers.ended(to, status.Code(err) == codes.Aborted)
	if errors.Is(err, errSilent) && several && time.Since(began) < steadyAfter {
		l.patience = min(2*l.patience, silentAfter) // it may be this machine that is slow
	} else {
		l.patience = leastPatience
	}
	return err
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

// frameEvery is the time between two frames that a server hears. The more of the memory waits for its disk, the fewer.
func (l *Link) frameEvery() time.Duration {
	if l.collector.state(time.Now()).used > 0.25 {
		return awayEvery
	}
	return frameEvery
}

// connection is one connection of the server that the agent reports to: until it fails, or ctx has ended and all is told. The error is
// nil in that case alone. several: there are others.
func (l *Link) connection(ctx, until context.Context, to address, several bool) error {
	patience := silentAfter
	if several {
		patience = max(l.patience, openWithin)
	}
	s, err := l.open(until, to, patience, false)
	if err != nil {
		return err
	}
	defer s.close()
	if several {
		s.patience = l.patience
	}
	l.connected.Store(true)
	l.connections.Add(1)
	l.log.Info("connected", "server", to.dial, "name", s.run.name, "held", l.collector.Held())
	return s.talk(ctx)
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
