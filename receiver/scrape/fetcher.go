package scrape

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// FetchParts are what a Fetcher stands on.
type FetchParts struct {
	// Holds reports whether the target's pod holds its address alone, as far as that is known.
	Holds func(*metric.ScrapeTarget) bool
	// Dial connects to an address; nil: over TCP.
	Dial  func(context.Context, netip.AddrPort) (net.Conn, error)
	Agent string // the User-Agent
	// Fetched takes what became of a scrape. The page's lines are the fetcher's again when it returns.
	Fetched func(*metric.ScrapedPage)
	Limits  FetchLimits
}

// Fetcher fetches the pages of targets: each once per interval, by a goroutine of its own. A server has one, and
// each agent.
type Fetcher struct {
	parts   FetchParts
	http    *http.Client
	pages   sync.Pool // of *page
	room    room
	turns   turns
	running sync.WaitGroup

	mu   sync.Mutex
	stop map[uint64]context.CancelFunc // by the number of the target
}

// NewFetcher makes a Fetcher without targets.
func NewFetcher(parts FetchParts) *Fetcher {
	limits := parts.Limits.complete()
	f := &Fetcher{parts: parts, room: room{most: limits.Together}, turns: turns{most: limits.AtOnce, of: map[string]*podTurns{}},
		stop: map[uint64]context.CancelFunc{}}
	f.pages.New = func() any { return newPage() }
	if parts.Dial == nil {
		dialer := &net.Dialer{KeepAlive: -1}
		f.parts.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", to.String())
		}
	}
	f.http = f.client()
	return f
}

// IsPods reports whether an address may be a pod's. loopback: those of pods may be loopback addresses.
func IsPods(a netip.Addr, loopback bool) bool {
	return a.IsGlobalUnicast() || loopback && a.IsLoopback()
}

// Start begins to fetch a target.
func (f *Fetcher) Start(t metric.ScrapeTarget) {
	ctx, stop := context.WithCancel(context.Background())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop[t.Number] = stop
	f.running.Go(func() { f.fetchEvery(ctx, &t) })
}

// Stop ends a target. A page of it that is being fetched is dropped; one that is being taken may still be.
func (f *Fetcher) Stop(number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stop := f.stop[number]; stop != nil {
		stop()
		delete(f.stop, number)
	}
}

// Close ends all targets and waits for them.
func (f *Fetcher) Close() {
	f.mu.Lock()
	for number, stop := range f.stop {
		stop()
		delete(f.stop, number)
	}
	f.mu.Unlock()
	f.running.Wait()
}

// soonWithin spreads the first scrapes of targets that another scraper had.
const soonWithin = 500 * time.Millisecond

// phaseOf spreads the targets over a span: it is the moment of a target within it.
func phaseOf(t *metric.ScrapeTarget, span time.Duration) time.Duration {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s %d %s", t.UID, t.Port, t.Path) //nolint:errcheck // a hash never fails
	return time.Duration(sum.Sum64() % uint64(span))
}

// phaseAt is the moment of a target in the interval of a time. It is a reading of the monotonic clock, so a wall
// clock that is set back delays no scrape.
func phaseAt(now time.Time, t *metric.ScrapeTarget) time.Time {
	return now.Add(now.Truncate(t.Interval).Sub(now) + phaseOf(t, t.Interval))
}

// fetchEvery fetches a target once each interval, until the context ends.
func (f *Fetcher) fetchEvery(ctx context.Context, t *metric.ScrapeTarget) {
	wanted := wantedNames(t.Names)
	now := time.Now()
	next := phaseAt(now, t)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for soon := t.Soon; ; soon = false {
		for now = time.Now(); !next.After(now); {
			next = next.Add(t.Interval)
		}
		wait := next.Sub(now)
		if soon {
			wait = min(wait, phaseOf(t, soonWithin))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f.scrape(ctx, t, wanted)
		}
	}
}

// scrape fetches one page and hands it on.
func (f *Fetcher) scrape(ctx context.Context, t *metric.ScrapeTarget, wanted map[string]*wanted) {
	if !f.turns.begin(ctx, t.UID) {
		return // the target has ended
	}
	defer f.turns.end(t.UID)
	p := f.pages.Get().(*page)
	p.share.enter(&f.room, t.UID)
	defer func() {
		p.share.leave()
		if cap(p.out)+cap(p.long) <= smallPage {
			f.pages.Put(p)
		}
	}()
	began := time.Now()
	fault := f.fetch(ctx, t, wanted, p)
	if ctx.Err() != nil {
		return // the target has ended
	}
	out := metric.ScrapedPage{Target: t.Number, Result: string(ok), Took: time.Since(began)}
	if fault != nil {
		out.Result, out.Fault = string(fault.result), fault.text
	} else {
		out.Missing, out.Bytes, out.Lines = p.missing(t.Names), int64(maxWire-p.wire.left), p.out
	}
	f.parts.Fetched(&out)
}
