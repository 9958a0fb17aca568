package scrape

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// MaxPods bounds the pods that one server scrapes.
const MaxPods = 1000

// Parts are the parts of Sluice that a Scraper uses.
type Parts struct {
	// Pods returns the pods that announce something, and the version of that set; nil: it has not changed
	// since a version. The first version is above 0.
	Pods func(since uint64) ([]metric.AnnouncedPod, uint64)
	// Sender returns the sender of an address.
	Sender func(netip.Addr) *metric.Sender
	// Own reports whether this process is the one of several replicas that scrapes.
	Own func() bool
	// Applier is the path into the table. It is offline.
	Applier receiver.Applier
	Account *ledger.Account
	// Explain says why a sample was rejected.
	Explain    func(metric.Reason, *metric.Sample) string
	Rejections *record.Rejections
	// Faulty is told of an announcement with a fault, once.
	Faulty func(pod *metric.Pod, fault string)
	// Loopback: pods may have loopback addresses, as in a cluster whose API server has one.
	Loopback bool
	// Dial connects to an address; nil: over TCP.
	Dial   func(context.Context, netip.AddrPort) (net.Conn, error)
	Agent  string // the User-Agent
	Logger *slog.Logger
}

// Scraper scrapes the announced endpoints.
type Scraper struct {
	parts Parts
	http  *http.Client
	pages sync.Pool // of *page
	room  room
	// reading is held by the goroutine that parses a page, until it is applied.
	reading struct {
		sync.Mutex
		pageReader
	}
	table struct {
		sync.Mutex
		applier receiver.Applier
		account *ledger.Account
	}
	counters counters
	failures ratelog.Limiter // of log lines
	surplus  ratelog.Limiter

	mu      sync.Mutex
	targets map[identity]*target
	// pods are all that announce something, and faulty those of them whose fault was told, by UID.
	pods   []metric.AnnouncedPod
	faulty map[string]string
}

// New makes a Scraper.
func New(parts Parts) *Scraper {
	s := &Scraper{parts: parts, targets: map[identity]*target{}, faulty: map[string]string{}, counters: newCounters()}
	s.pages.New = func() any { return newPage() }
	s.table.applier, s.table.account = parts.Applier, parts.Account
	if parts.Dial == nil {
		dialer := &net.Dialer{KeepAlive: -1}
		s.parts.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", to.String())
		}
	}
	s.http = s.client()
	s.failures.Interval, s.surplus.Interval = 10*time.Second, time.Hour
	return s
}

// identity distinguishes targets. A target whose pod, address or endpoint changes is another one.
type identity struct {
	uid     string
	address netip.Addr
	port    uint16
	path    string
	names   string
	every   time.Duration
}

// target is an endpoint of a pod. Its goroutine writes.
type target struct {
	metric.Endpoint
	pod     *metric.Pod
	address netip.Addr
	wanted  map[string]*wanted // of the goroutine
	stop    context.CancelFunc

	bytes, samples atomic.Int64
	state          atomic.Pointer[state] // nil: not scraped yet
}

// state is immutable.
type state struct {
	at, succeeded time.Time // succeeded is zero if no scrape ever did
	took          time.Duration
	result        result
	fault         string
	missing       []string
}

func (t *target) url() string {
	return "http://" + netip.AddrPortFrom(t.address, t.Port).String() + t.Path
}

// holds reports whether the pod holds the target's address alone, and the address is a pod's.
func (s *Scraper) holds(t *target) bool {
	holder := s.parts.Sender(t.address)
	return holder != nil && holder.Pod != nil && holder.Pod.UID == t.pod.UID &&
		(t.address.IsGlobalUnicast() || s.parts.Loopback && t.address.IsLoopback())
}

// lookEvery is the interval at which the announcements are compared with the targets.
const lookEvery = time.Second

// Run scrapes until the context ends.
func (s *Scraper) Run(ctx context.Context) error {
	var running sync.WaitGroup
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	version, own := uint64(0), false
	for {
		all, now := s.parts.Pods(version)
		if is := s.parts.Own(); now != version || is != own {
			version, own = now, is
			if all != nil {
				s.listed(all)
			}
			s.follow(ctx, own, &running)
		}
		select {
		case <-ctx.Done():
			running.Wait()
			s.table.Lock()
			defer s.table.Unlock()
			s.parts.Applier.Close()
			return nil
		case <-tick.C:
		}
	}
}

// listed takes the announcing pods, the oldest first, and tells of new faults.
func (s *Scraper) listed(all []metric.AnnouncedPod) {
	slices.SortFunc(all, func(a, b metric.AnnouncedPod) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.UID, b.UID))
	})
	faulty := map[string]string{}
	for _, pod := range all {
		if pod.Fault == "" {
			continue
		}
		if faulty[pod.UID] = pod.Fault; s.faulty[pod.UID] != pod.Fault {
			s.counters.faults.Inc()
			s.parts.Faulty(pod.Pod, pod.Fault)
		}
	}
	s.faulty = faulty
	s.mu.Lock()
	s.pods = all
	s.mu.Unlock()
}

// follow starts and stops targets, so that they are those of the announcing pods.
func (s *Scraper) follow(ctx context.Context, own bool, running *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[identity]*target{}
	n := 0
	for _, pod := range s.pods {
		if !own || len(pod.Endpoints) == 0 || !pod.Address.IsValid() {
			continue
		}
		if n++; n > MaxPods {
			continue
		}
		for _, e := range pod.Endpoints {
			id := identityOf(pod, e)
			if wanted[id] = s.targets[id]; wanted[id] == nil {
				wanted[id] = s.start(ctx, pod, e, running)
			}
		}
	}
	for id, t := range s.targets {
		if wanted[id] == nil {
			t.stop()
		}
	}
	s.targets = wanted
	if n > MaxPods {
		if _, log := s.surplus.Allow(); log {
			s.parts.Logger.Warn("more pods announce endpoints than a server scrapes; the youngest are not scraped",
				"pods", n, "limit", MaxPods)
		}
	}
}

func identityOf(pod metric.AnnouncedPod, e metric.Endpoint) identity {
	return identity{pod.UID, pod.Address, e.Port, e.Path, strings.Join(e.Names, " "), e.Interval}
}

func (s *Scraper) start(ctx context.Context, pod metric.AnnouncedPod, e metric.Endpoint, running *sync.WaitGroup) *target {
	ctx, stop := context.WithCancel(ctx)
	t := &target{Endpoint: e, pod: pod.Pod, address: pod.Address, wanted: wantedNames(e.Names), stop: stop}
	running.Go(func() { s.scrapeEvery(ctx, t) })
	return t
}

// phaseOf spreads the targets over their interval: it is the moment of a target's scrapes within it.
func phaseOf(t *target) time.Duration {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s %d %s", t.pod.UID, t.Port, t.Path) //nolint:errcheck // a hash never fails
	return time.Duration(sum.Sum64() % uint64(t.Interval))
}

// scrapeEvery scrapes a target once each interval, until the context ends.
func (s *Scraper) scrapeEvery(ctx context.Context, t *target) {
	now := time.Now()
	next := now.Truncate(t.Interval).Add(phaseOf(t))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for now = time.Now(); !next.After(now); {
			next = next.Add(t.Interval)
		}
		timer.Reset(next.Sub(now))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.scrape(ctx, t)
		}
	}
}

// scrape takes one page, and says how that went.
func (s *Scraper) scrape(ctx context.Context, t *target) {
	p := s.pages.Get().(*page)
	p.share.enter(&s.room, t.pod.UID)
	defer func() {
		p.share.leave()
		if cap(p.out)+cap(p.long) <= smallPage {
			s.pages.Put(p)
		}
	}()
	before, began := t.state.Load(), time.Now()
	f := s.fetch(ctx, t, p)
	if ctx.Err() != nil {
		return // the pod is gone, or the process ends
	}
	now := state{at: began, took: time.Since(began), result: ok}
	if f == nil {
		s.received(uint64(t.bytes.Load()))
		now.missing = p.missing(t.Names)
		if sender := s.parts.Sender(t.address); s.holds(t) {
			f = s.apply(t, p, sender)
		} else {
			f = failed(moved, "%v", errMoved)
		}
	}
	if f != nil {
		now.result, now.fault = f.result, f.text
	}
	switch {
	case now.result == ok:
		now.succeeded = began
	case before != nil:
		now.succeeded = before.succeeded
	}
	s.counters.scrapes.WithLabelValues(string(now.result)).Inc()
	t.state.Store(&now)
	if now.result != ok && (before == nil || before.result != now.result) {
		if suppressed, log := s.failures.Allow(); log {
			s.parts.Logger.Warn("cannot scrape a pod", "namespace", t.pod.Namespace, "pod", t.pod.Name, "endpoint", t.url(),
				"result", string(now.result), "fault", now.fault, "suppressed", suppressed)
		}
	}
}

// received counts a page.
func (s *Scraper) received(bytes uint64) {
	s.table.Lock()
	defer s.table.Unlock()
	s.table.account.AddPackets(1, bytes)
}

// Targets lists what the pods of a namespace (empty: of all) announce, and how their scrapes go.
func (s *Scraper) Targets(namespace string) (all []inspect.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range s.pods {
		if namespace != "" && pod.Namespace != namespace {
			continue
		}
		listed := inspect.Target{Namespace: pod.Namespace, Pod: pod.Name}
		if pod.Fault != "" {
			listed.State, listed.Error = inspect.TargetInvalid, pod.Fault
			all = append(all, listed)
			continue
		}
		for _, e := range pod.Endpoints {
			all = append(all, s.listedLocked(listed, pod, e))
		}
	}
	return all
}

func (s *Scraper) listedLocked(to inspect.Target, pod metric.AnnouncedPod, e metric.Endpoint) inspect.Target {
	to.Endpoint, to.Names, to.Interval = fmt.Sprintf(":%d%s", e.Port, e.Path), e.Names, e.Interval.Seconds()
	t := s.targets[identityOf(pod, e)]
	switch {
	case !pod.Address.IsValid():
		to.State, to.Error = inspect.TargetWaiting, "the pod has no address yet"
		return to
	case t == nil && !s.parts.Own():
		to.State, to.Error = inspect.TargetElsewhere, "another replica scrapes"
		return to
	case t == nil:
		to.State, to.Error = inspect.TargetSurplus, fmt.Sprintf("more than %d pods announce endpoints, and this one is among the youngest", MaxPods)
		return to
	}
	now := t.state.Load()
	if now == nil {
		to.State = inspect.TargetWaiting
		return to
	}
	to.State, to.Result = inspect.TargetFailing, string(now.result)
	if now.result == ok {
		to.State = inspect.TargetUp
	}
	to.LastScrape, to.Error, to.Missing = now.at.UTC(), now.fault, now.missing
	if !now.succeeded.IsZero() {
		to.LastSuccess = now.succeeded.UTC()
	}
	to.Seconds, to.Samples, to.Bytes = now.took.Seconds(), t.samples.Load(), t.bytes.Load()
	return to
}
