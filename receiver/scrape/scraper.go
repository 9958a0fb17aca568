package scrape

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	// NodeOf returns the node of a pod.
	NodeOf func(*metric.Pod) string
	// Shares is nil without other replicas.
	Shares Shares
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

// Scraper scrapes the announced endpoints: by the agent of the pod's node, or itself.
type Scraper struct {
	parts   Parts
	fetcher *Fetcher
	// large is the reader of large pages, one at a time; small ones don't wait for it.
	small, large pageReader
	table        struct {
		sync.Mutex
		applier receiver.Applier
		account *ledger.Account
	}
	counters counters
	failures ratelog.Limiter // of log lines
	surplus  ratelog.Limiter
	rejected [metric.NumReasons]ratelog.Limiter // of recorded samples

	mu       sync.Mutex
	targets  map[identity]*target
	byNumber map[uint64]*target // the same
	number   uint64             // of the last target
	nodes    map[string]*node   // those that have an agent, or had one lately
	turns    map[string]turn    // of the nodes of pods that announce something
	// pods are all that announce something, and faulty those of them whose fault was told, by UID.
	pods   []metric.AnnouncedPod
	faulty map[string]string
}

// New makes a Scraper.
func New(parts Parts) *Scraper {
	s := &Scraper{parts: parts, targets: map[identity]*target{}, byNumber: map[uint64]*target{}, nodes: map[string]*node{},
		turns: map[string]turn{}, number: rand.Uint64(), // an agent may have targets of another process still
		faulty: map[string]string{}, counters: newCounters()}
	s.table.applier, s.table.account = parts.Applier, parts.Account
	s.fetcher = NewFetcher(FetchParts{Holds: s.holds, Dial: parts.Dial, Agent: parts.Agent,
		Fetched: func(p *metric.ScrapedPage) { s.take(nil, p) }})
	s.failures.Interval, s.surplus.Interval = 10*time.Second, time.Hour
	return s
}

// identity distinguishes endpoints. An endpoint whose pod or address changes is another one.
type identity struct {
	uid     string
	address netip.Addr
	port    uint16
	path    string
	names   string
	every   time.Duration
}

// target is an endpoint of a pod and who scrapes it.
type target struct {
	metric.ScrapeTarget
	pod   *metric.Pod
	agent *Agent      // nil: this process scrapes
	ended atomic.Bool // no page of it is applied any more

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

// holds reports whether the pod holds the target's address alone, and the address is a pod's.
func (s *Scraper) holds(t *metric.ScrapeTarget) bool { return s.heldBy(t, s.parts.Sender(t.Address)) }

// heldBy is holds for the sender that has the address.
func (s *Scraper) heldBy(t *metric.ScrapeTarget, holder *metric.Sender) bool {
	return holder != nil && holder.Pod != nil && holder.Pod.UID == t.UID && IsPods(t.Address, s.parts.Loopback)
}

// lookEvery is the interval at which the announcements are compared with the targets.
const lookEvery = time.Second

// Run scrapes until the context ends.
func (s *Scraper) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var shared <-chan struct{} // nil: none
	if s.parts.Shares != nil {
		shared = s.parts.Shares.Changed()
	}
	for version := uint64(0); ; {
		all, now := s.parts.Pods(version)
		turns := s.turnsChanged(time.Now())
		if now != version || turns {
			version = now
			if all != nil {
				s.listed(all)
			}
			s.follow()
		}
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.replaceLocked(nil) // agents may send more pages
			s.mu.Unlock()
			s.fetcher.Close()
			s.table.Lock()
			defer s.table.Unlock()
			s.parts.Applier.Close()
			return nil
		case <-tick.C:
		case <-shared:
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
func (s *Scraper) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := make(map[string]bool, len(s.turns))
	wanted := make(map[identity]*target, len(s.targets))
	pods := map[*Agent]int{} // by who scrapes
	for _, pod := range s.pods {
		if len(pod.Endpoints) == 0 || !pod.Address.IsValid() {
			continue
		}
		t := s.turnOfLocked(pod.Pod)
		nodes[s.parts.NodeOf(pod.Pod)] = true
		if !t.here {
			continue
		}
		if pods[t.agent]++; pods[t.agent] > MaxPods {
			continue
		}
		for _, e := range pod.Endpoints {
			id := identityOf(pod, e)
			before := s.targets[id]
			switch {
			case before != nil && (before.agent == t.agent || !t.may):
				wanted[id] = before
			case t.may:
				wanted[id] = s.newTargetLocked(&t, pod, e, before)
			}
		}
	}
	s.replaceLocked(wanted)
	maps.DeleteFunc(s.turns, func(node string, _ turn) bool { return !nodes[node] })
	if n := pods[nil]; n > MaxPods {
		if _, log := s.surplus.Allow(); log {
			s.parts.Logger.Warn("more pods announce endpoints than a server scrapes; the youngest are not scraped",
				"pods", n, "limit", MaxPods)
		}
	}
}

// replaceLocked makes targets those that are scraped. Each that ends does so before another one starts.
func (s *Scraper) replaceLocked(wanted map[identity]*target) {
	for id, t := range s.targets {
		if wanted[id] == t {
			continue
		}
		t.ended.Store(true)
		delete(s.byNumber, t.Number)
		if t.agent == nil {
			s.fetcher.Stop(t.Number)
		} else {
			t.agent.drop = append(t.agent.drop, t.Number)
		}
	}
	before := s.targets
	s.targets = wanted
	for id, t := range wanted {
		if before[id] == t {
			continue
		}
		s.byNumber[t.Number] = t
		if t.agent == nil {
			s.fetcher.Start(t.ScrapeTarget)
		} else {
			t.agent.add = append(t.agent.add, t.ScrapeTarget)
		}
	}
}

func identityOf(pod metric.AnnouncedPod, e metric.Endpoint) identity {
	return identity{pod.UID, pod.Address, e.Port, e.Path, strings.Join(e.Names, " "), e.Interval}
}

// newTargetLocked makes a target that follows one of another scraper; nil: none of this replica.
func (s *Scraper) newTargetLocked(by *turn, pod metric.AnnouncedPod, e metric.Endpoint, before *target) *target {
	s.number++
	t := &target{pod: pod.Pod, agent: by.agent, ScrapeTarget: metric.ScrapeTarget{Endpoint: e, Number: s.number, UID: pod.UID,
		Address: pod.Address, Soon: before != nil || by.moved}}
	if before != nil {
		t.state.Store(before.state.Load())
		t.bytes.Store(before.bytes.Load())
		t.samples.Store(before.samples.Load())
	}
	return t
}

// take takes a page that an agent has fetched (nil: this process): it applies it if the pod holds its address
// still, and remembers how that went.
func (s *Scraper) take(from *Agent, p *metric.ScrapedPage) {
	s.mu.Lock()
	t := s.byNumber[p.Target]
	s.mu.Unlock()
	if t == nil || t.agent != from {
		return // another one scrapes it by now
	}
	if shares := s.parts.Shares; shares != nil && !shares.Ready() {
		return // this process stood still, and another replica may scrape it by now
	}
	before := t.state.Load()
	now := state{at: time.Now().Add(-p.Took), took: p.Took, result: resultOf(p.Result), fault: p.Fault, missing: missingOf(t.Names, p.Missing)}
	if now.result == ok {
		s.received(uint64(p.Bytes))
		t.bytes.Store(p.Bytes)
		f := failed(moved, "%v", errMoved)
		if sender := s.parts.Sender(t.Address); s.heldBy(&t.ScrapeTarget, sender) {
			f = s.apply(t, p.Lines, sender, now.at)
		}
		if f == errEnded {
			return
		}
		if f != nil {
			now.result, now.fault = f.result, f.text
		}
	}
	switch {
	case now.result == ok:
		now.succeeded = now.at
	case before != nil:
		now.succeeded = before.succeeded
	}
	s.counters.scrapes.WithLabelValues(string(now.result)).Inc()
	t.state.Store(&now)
	if now.result != ok && (before == nil || before.result != now.result) {
		s.failed(t, &now)
	}
}

// missingOf are the names of a target that a page did not have, as its fetcher says.
func missingOf(names, said []string) (all []string) {
	if len(said) > len(names) {
		return nil // an agent that lies
	}
	for _, name := range names {
		if slices.Contains(said, name) {
			all = append(all, name)
		}
	}
	return all
}

// failed logs that a target begins to fail.
func (s *Scraper) failed(t *target, now *state) {
	if suppressed, log := s.failures.Allow(); log {
		s.parts.Logger.Warn("cannot scrape a pod", "namespace", t.pod.Namespace, "pod", t.pod.Name,
			"endpoint", shownURL(&t.ScrapeTarget), "agent", t.agent.nodeName(), "result", string(now.result),
			"fault", now.fault, "suppressed", suppressed)
	}
}

// received counts a page.
func (s *Scraper) received(bytes uint64) {
	s.table.Lock()
	defer s.table.Unlock()
	s.table.account.AddPackets(1, bytes)
}
