package replica

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/scrape"
	"github.com/sluice-metrics/sluice/replica/claim"
)

// scrapedPods are two pods with a page each, of which one counts: "p0" is on node "n", which may have agents, "p1" is not.
type scrapedPods struct {
	pods    []metric.AnnouncedPod
	mu      sync.Mutex // guards the fields below
	total   int64
	grown   int64
	fetched []string // who asked for the page of p0, without repetitions
}

func newScrapedPods(interval time.Duration) *scrapedPods {
	s := &scrapedPods{total: 1_000_000}
	for i := range 2 {
		s.pods = append(s.pods, metric.AnnouncedPod{Pod: &metric.Pod{Namespace: "ns", Name: podName(i), UID: fmt.Sprint("uid-", i)},
			Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Announcement: &metric.Announcement{Endpoints: []metric.Endpoint{
				{Port: 1, Path: "/metrics", Names: []string{"requests", "latency"}, Interval: interval}}}})
	}
	return s
}

func (s *scrapedPods) grow(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.grown = s.total+n, s.grown+n
}

// dial connects to a pod, which answers one request.
func (s *scrapedPods) dial(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		request, err := http.ReadRequest(bufio.NewReader(far))
		if err != nil {
			return
		}
		s.mu.Lock()
		if n := len(s.fetched); to.Addr() == s.pods[0].Address && (n == 0 || s.fetched[n-1] != request.UserAgent()) {
			s.fetched = append(s.fetched, request.UserAgent())
		}
		total := s.total
		s.mu.Unlock()
		fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n# TYPE requests counter\nrequests %d\n"+
			"# TYPE latency histogram\nlatency_bucket{le=\"1\"} %d\nlatency_bucket{le=\"+Inf\"} %d\nlatency_sum %d\nlatency_count %d\n",
			total, total, total, total, total)
	}()
	return near, nil
}

// scrapes is what a process of a simulation scrapes.
type scrapes struct {
	pods    *scrapedPods
	claims  *claim.Claims
	scraper *scrape.Scraper
	process *process
	replica *Replica
	end     func()
}

func (s *scrapes) documents(which func(*claim.Claims) []claim.Document) (all []Document) {
	if s == nil {
		return nil
	}
	for _, document := range which(s.claims) {
		all = append(all, Document{Key: "c" + string(document.Key[:]), Stamp: document.Stamp, Value: document.Value})
	}
	return all
}

func (s *scrapes) start(p *process, r *Replica) {
	s.process, s.replica = p, r
	s.claims = claim.New(claim.Parts{Name: p.name, Process: p.epoch.Incarnation(), Lives: r.Hears, Soon: func() {}})
	applier := p.table.NewWriter()
	applier.Offline()
	s.scraper = scrape.New(scrape.Parts{
		Pods: func(since uint64) ([]metric.AnnouncedPod, uint64) {
			if since == 1 {
				return nil, 1
			}
			return append([]metric.AnnouncedPod{}, s.pods.pods...), 1
		},
		Sender: func(a netip.Addr) *metric.Sender {
			return &metric.Sender{Key: 1, Address: a, Pod: s.pods.pods[a.As4()[3]].Pod, Known: true}
		},
		NodeOf:  func(pod *metric.Pod) string { return map[string]string{"p0": "n", "p1": "m"}[pod.Name] },
		Applier: applier, Account: ledger.New().Open(scrape.Receiver), Shares: s, Dial: s.pods.dial, Agent: p.name,
		Explain: func(reason metric.Reason, _ *metric.Sample) string { return reason.String() }, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func(scraper *scrape.Scraper) { defer close(done); _ = scraper.Run(ctx) }(s.scraper)
	s.end = func() { cancel(); <-done }
}

func (s *scrapes) stop() { s.end() }

// scrapes implements scrape.Shares.
func (s *scrapes) Take(share string)        { s.claims.Take(share) }
func (s *scrapes) Release(share string)     { s.claims.Release(share) }
func (s *scrapes) Changed() <-chan struct{} { return s.claims.Changed() }
func (s *scrapes) First() bool              { return s.process.merged.First() }
func (s *scrapes) Ready() bool              { ready, _ := s.replica.Answers(); return ready }
func (s *scrapes) Of(share string) (mine, free bool, since time.Time) {
	h := s.claims.Of(share)
	return h.Mine, h.Holder == "", h.Since
}

// playedAgent is the agent of node "n": it takes its targets twice a second, as a stream does, and fetches them.
type playedAgent struct {
	*scrape.Agent
	fetcher *scrape.Fetcher
	ended   chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

func newPlayedAgent(p *process) *playedAgent {
	a := &playedAgent{Agent: p.scrapes.scraper.Enter("n"), ended: make(chan struct{})}
	a.fetcher = scrape.NewFetcher(scrape.FetchParts{Holds: func(*metric.ScrapeTarget) bool { return true }, Dial: p.scrapes.pods.dial,
		Agent: "agent of " + p.name, Fetched: func(page *metric.ScrapedPage) {
			kept := *page
			kept.Lines = bytes.Clone(page.Lines)
			a.Take(&kept)
		}})
	a.running.Go(func() {
		for {
			a.Heard()
			add, drop := a.News()
			for _, number := range drop {
				a.fetcher.Stop(number)
			}
			for _, t := range add {
				a.fetcher.Start(t)
			}
			select {
			case <-a.ended:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	return a
}

// freeze ends what the agent does, and leaves its stream open.
func (a *playedAgent) freeze() {
	a.once.Do(func() { close(a.ended); a.running.Wait(); a.fetcher.Close() })
}

func (a *playedAgent) kill() { a.freeze(); a.Leave() }

// scrapeWorld is a simulation of replicas that scrape.
type scrapeWorld struct {
	t *testing.T
	*fabric
	rng     *rand.Rand
	all     []*process
	pods    *scrapedPods
	agents  []*playedAgent
	ticks   int
	highest map[*process]int64

	unsafe time.Time // growth until then may count twice
	twice  int64     // growth of such times
	// away: replicas may not have heard each other for longer than the series live. Then windows may lose a part.
	away bool
}

func newScrapeWorld(t *testing.T, seed uint64) *scrapeWorld {
	rng := rand.New(rand.NewPCG(seed, 3))
	w := &scrapeWorld{t: t, rng: rng, fabric: newFabric(rng, time.Now), highest: map[*process]int64{}}
	w.pods = newScrapedPods([]time.Duration{time.Second, 3 * time.Second, 10 * time.Second}[rng.IntN(3)])
	for i := range 2 + rng.IntN(2) {
		p := &process{name: fmt.Sprint("origin-", i), config: replicated(10*time.Second, time.Hour), scrapes: &scrapes{pods: w.pods}}
		startProcess(t, w.fabric, p)
		w.all = append(w.all, p)
	}
	return w
}

// end ends all goroutines.
func (w *scrapeWorld) end() {
	for _, a := range w.agents {
		a.kill()
	}
	for _, p := range w.all {
		if p.replica != nil {
			p.kill()
		}
	}
}

// pass lets some tenths of seconds pass, in which the counter grows.
func (w *scrapeWorld) pass(ticks int, grows bool) {
	for range ticks {
		if grows && w.rng.IntN(3) == 0 {
			n := int64(w.rng.IntN(9))
			if w.pods.grow(n); time.Now().Before(w.unsafe) {
				w.twice += n
			}
		}
		passTables(w.fabric, w.all, w.ticks)
		w.ticks++
		for _, p := range w.all {
			if p.replica == nil {
				delete(w.highest, p)
				continue
			}
			if ready, _ := p.replica.Answers(); !ready {
				continue
			}
			w.totals(p)
		}
	}
}

// totals checks that no total passes that of the page, nor falls, but while replicas do not hear each other.
func (w *scrapeWorld) totals(p *process) {
	w.t.Helper()
	n, known := p.read("requests:total")["p0"]
	got, _ := n.Int64()
	switch {
	case got > w.pods.total:
		w.t.Fatalf("%s: the total is %d, and %d on the page", p.name, got, w.pods.total)
	case time.Now().Before(w.unsafe):
		delete(w.highest, p)
		return
	case !known && w.highest[p] > 0:
		w.t.Fatalf("%s has no total any more", p.name)
	case got < w.highest[p]:
		w.t.Fatalf("%s: the total is %d after %d", p.name, got, w.highest[p])
	}
	w.highest[p] = got
}

// live are the processes that run.
func (w *scrapeWorld) live() (all []*process) {
	for _, p := range w.all {
		if p.replica != nil {
			all = append(all, p)
		}
	}
	return all
}

// calm waits until all is quiet, and each replica has what the page says. It returns how much is counted more than has grown.
func (w *scrapeWorld) calm() (more int64) {
	w.t.Helper()
	w.pass(250, true)
	w.pass(250, false)
	for _, p := range w.all {
		for pod := range 2 {
			if got, _ := p.read("requests:total")[podName(pod)].Int64(); got != w.pods.total {
				w.t.Errorf("%s: the total of p%d is %d, the page has %d", p.name, pod, got, w.pods.total)
			}
		}
		count, _ := p.read("requests:count:1h")["p0"].Int64()
		observed := int64(p.read("latency:count:1h")["p0"].Float64())
		if observed != count {
			w.t.Errorf("%s counts %d requests, and %d observations of the same page", p.name, count, observed)
		}
		more = max(more, count-w.pods.grown)
		if count < w.pods.grown && !w.away {
			w.t.Errorf("%s counts %d of %d", p.name, count, w.pods.grown)
		}
	}
	return more
}

// begin has the first page read, and then nothing grown.
func (w *scrapeWorld) begin() {
	w.pass(250, false)
	w.pods.grown = 0
}

// An agent that moves between replicas, ends, comes again, and stands still: of one pod one fetches, and each growth counts once, at each
// replica, in windows too.
func TestReplicasHandScrapesOver(t *testing.T) {
	eachSeed(t, 2, func(t *testing.T, seed uint64) {
		w := newScrapeWorld(t, seed)
		defer w.end()
		w.begin()
		for range 12 {
			switch n := len(w.agents); w.rng.IntN(4) {
			case 0, 1: // it moves, or there is a next one
				if n > 0 && w.rng.IntN(2) == 0 {
					w.agents[n-1].kill()
					w.agents = w.agents[:n-1]
				}
				w.agents = append(w.agents, newPlayedAgent(w.all[w.rng.IntN(len(w.all))]))
			case 2:
				if n > 0 {
					w.agents[0].kill()
					w.agents = w.agents[1:]
				}
			case 3:
				if n > 0 {
					w.agents[n-1].freeze()
					w.pass(150, true)
					w.agents[n-1].Leave()
					w.agents = w.agents[:n-1]
				}
			}
			w.pass(20+w.rng.IntN(150), true)
		}
		if more := w.calm(); more != 0 {
			t.Errorf("%d counts twice; fetched by %s", more, strings.Join(w.pods.fetched, ", "))
		}
		if n := len(w.pods.fetched); n < 2 {
			t.Errorf("the page was fetched by %q alone", w.pods.fetched)
		}
	})
}

// Whatever happens to replicas and the links between them, totals never pass those of the page, are equal in the end, and fall at most while replicas
// do not hear each other. Windows count at most that twice which has grown meanwhile, and some seconds after.
func TestReplicasScrapeThroughFaults(t *testing.T) {
	eachSeed(t, 2, func(t *testing.T, seed uint64) {
		w := newScrapeWorld(t, seed)
		defer w.end()
		w.begin()
		w.away = true
		for range 3 {
			w.trouble()
		}
		w.heal()
		if more := w.calm(); more > w.twice {
			t.Errorf("%d counts twice, want %d at most; fetched by %s", more, w.twice, strings.Join(w.pods.fetched, ", "))
		}
	})
}

// trouble is some minutes of everything at once.
func (w *scrapeWorld) trouble() {
	agent := newPlayedAgent(w.all[0])
	of := w.all[0]
	for range 20 {
		p := w.all[w.rng.IntN(len(w.all))]
		switch n := w.rng.IntN(10); {
		case n < 2 && p.replica != nil && len(w.live()) > 1:
			if of == p {
				agent.kill()
				of = nil
			}
			p.kill()
			w.doubt(15 * time.Second)
		case n < 4 && p.replica == nil:
			startProcess(w.t, w.fabric, p)
			w.doubt(15 * time.Second)
		case n == 5:
			a, b := w.all[0].port, w.all[1].port
			w.cut[[2]*port{a, b}] = true
			if w.rng.IntN(2) == 0 {
				w.cut[[2]*port{b, a}] = true
			}
		case n == 6:
			clear(w.cut)
			w.drop, w.late, w.delay = w.rng.Float64()*0.3, w.rng.Float64()*0.3, time.Second
		case n == 7:
			w.heal()
		}
		if of == nil || w.rng.IntN(4) == 0 {
			if of != nil {
				agent.kill()
			}
			of = w.live()[w.rng.IntN(len(w.live()))]
			agent = newPlayedAgent(of)
		}
		for range 1 + w.rng.IntN(8) {
			if len(w.cut) > 0 || w.drop > 0 {
				w.doubt(20 * time.Second)
			}
			w.pass(10, true)
		}
	}
	if of != nil {
		agent.kill()
	}
	w.pass(100, true)
}

// doubt notes that what grows for some time may count twice.
func (w *scrapeWorld) doubt(span time.Duration) { w.unsafe = time.Now().Add(span) }

// heal ends all faults.
func (w *scrapeWorld) heal() {
	clear(w.cut)
	w.drop, w.late = 0, 0
	for _, p := range w.all {
		if p.replica == nil {
			startProcess(w.t, w.fabric, p)
			w.doubt(15 * time.Second)
		}
	}
}
