package scrape

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// played is an agent that is played: it takes its targets twice a second, as a stream does, and fetches them.
type played struct {
	*Agent
	fetcher *Fetcher
	ended   chan struct{}
	mu      sync.Mutex
	pages   []metric.ScrapedPage // with lines of their own
}

func (w *world) agent(node string) *played {
	p := &played{Agent: w.Enter(node), ended: make(chan struct{})}
	p.fetcher = NewFetcher(FetchParts{Holds: func(*metric.ScrapeTarget) bool { return true }, Dial: w.dial, Agent: "agent of " + node,
		Fetched: func(page *metric.ScrapedPage) {
			kept := *page
			kept.Lines = slices.Clone(page.Lines)
			p.mu.Lock()
			p.pages = append(p.pages, kept)
			p.mu.Unlock()
			p.Take(page)
		}})
	go func() {
		for {
			p.Heard()
			add, drop := p.News()
			for _, number := range drop {
				p.fetcher.Stop(number)
			}
			for _, t := range add {
				p.fetcher.Start(t)
			}
			select {
			case <-p.ended:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return p
}

// freeze ends what the agent does, and leaves its stream open.
func (p *played) freeze() { close(p.ended); p.fetcher.Close() }

// kill ends the agent and its stream.
func (p *played) kill() { p.freeze(); p.Leave() }

// last is the last page that the agent fetched.
func (p *played) last() metric.ScrapedPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages[len(p.pages)-1]
}

// asked is a page that notes who asks for it.
type asked struct {
	http.Handler
	mu sync.Mutex
	by []string
	at time.Time // of the last request
}

func (a *asked) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.by, a.at = append(a.by, r.UserAgent()), time.Now()
	a.mu.Unlock()
	a.Handler.ServeHTTP(to, r)
}

// took is who asked since the last call.
func (a *asked) took() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	who := slices.Compact(a.by)
	a.by = nil
	return strings.Join(who, ", ")
}

// The agent of a pod's node scrapes it, and this process all others. It takes over when the agent is killed or stands still, and
// hands over when there is one again. Meanwhile the value stands, and each growth of the counter counts once.
func TestAgentsScrape(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 3700 * time.Millisecond, 10 * time.Second} {
		t.Run(interval.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { agentsScrape(t, interval) }) })
	}
}

func agentsScrape(t *testing.T, interval time.Duration) {
	w := newTabled(t)
	counted := &countedPage{}
	counted.total.Store(1_000_000)
	page := &asked{Handler: counted}
	w.pod("web", "10.0.0.1", page, metric.Endpoint{Port: 1, Interval: interval, Names: []string{"requests_total", "vllm:waiting"}})
	other := &asked{Handler: counted}
	w.pod("other", "10.0.0.2", other, metric.Endpoint{Port: 1, Interval: interval, Names: []string{"vllm:waiting"}})
	w.nodes["web"], w.nodes["other"] = "a", "b"
	w.run()
	grown, began := 0, false
	// lives has the counter grow, and reads all the time.
	lives := func(span time.Duration) {
		t.Helper()
		for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if began {
				counted.total.Add(1)
				grown++
				w.want("vllm:waiting:last", "7")
			}
		}
		synctest.Wait()
	}
	scrapedBy := func(who string) {
		t.Helper()
		page.took()
		lives(3 * interval)
		if got := page.took(); got != who {
			t.Errorf("the pod is scraped by %q, want %q", got, who)
		}
		node, _ := strings.CutPrefix(who, "agent of ")
		for _, to := range w.Targets("") {
			if to.State != inspect.TargetUp || to.Agent != map[bool]string{true: strings.TrimPrefix(node, "sluice/test")}[to.Pod == "web"] {
				t.Errorf("%+v, want %s", to, who)
			}
		}
	}
	lives(2*interval + time.Second)
	began = true
	scrapedBy("sluice/test")
	first := w.agent("a")
	lives(3 * time.Second)
	scrapedBy("agent of a")
	untilNext := func() { // the worst moment: just before a page is fetched
		page.mu.Lock()
		at := page.at
		page.mu.Unlock()
		lives(time.Until(at.Add(interval - 50*time.Millisecond)))
	}
	untilNext()
	first.kill()
	lives(expectFor + 2*time.Second + interval)
	scrapedBy("sluice/test")
	second := w.agent("a")
	lives(3*time.Second + interval)
	scrapedBy("agent of a")
	untilNext()
	second.freeze()
	lives(heardFor + 2*time.Second + interval)
	scrapedBy("sluice/test")
	// What it sends once it goes on is older than what this process has read.
	stale := second.last()
	second.Take(&stale)
	third := w.agent("a") // beside the former one, as during an update
	lives(3*time.Second + interval)
	scrapedBy("agent of a")
	third.Take(&stale)
	third.kill()
	lives(expectFor + 2*time.Second + interval)
	if got := other.took(); got != "sluice/test" {
		t.Errorf("the pod of another node is scraped by %q", got)
	}
	counted.total.Add(1)
	grown++
	time.Sleep(2 * interval)
	synctest.Wait()
	w.want("requests_total:total", fmt.Sprint(1_000_000+grown))
	w.want("requests_total:count:5m", fmt.Sprint(grown))
}

// A new scraper does not wait for the moment of the interval: what the former one read last may be an interval old.
func TestAHandOverIsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		page := &asked{Handler: text("a 1\n")}
		w.pod("web", "10.0.0.1", page, metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: 5 * time.Minute})
		w.nodes["web"] = "n"
		w.run()
		time.Sleep(5 * time.Minute)
		agent := w.agent("n")
		time.Sleep(settled + lookEvery + time.Second)
		if got := page.took(); got != "sluice/test, agent of n" {
			t.Errorf("%q have asked", got)
		}
		agent.kill()
		time.Sleep(expectFor + lookEvery + time.Second)
		if got := page.took(); got != "sluice/test" {
			t.Errorf("%q have asked after the agent's end", got)
		}
	})
}

// Of two agents of a node, as during an update, the newer one scrapes.
func TestTheNewestAgentScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		page := &asked{Handler: text("a 1\n")}
		w.pod("web", "10.0.0.1", page, metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: time.Second})
		w.nodes["web"] = "n"
		w.run()
		agents := map[string]*played{"older": w.agent("n")}
		scrapes := func(agent string, others ...string) {
			t.Helper()
			time.Sleep(4 * time.Second)
			for _, name := range append(others, agent) {
				agents[name].mu.Lock()
				agents[name].pages = nil
				agents[name].mu.Unlock()
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			for _, name := range others {
				if n := len(agents[name].pages); n > 0 {
					t.Errorf("the %s agent has fetched %d pages", name, n)
				}
			}
			if n := len(agents[agent].pages); n != 2 {
				t.Errorf("the %s agent has fetched %d pages in 2 s", agent, n)
			}
		}
		scrapes("older")
		agents["newer"] = w.agent("n")
		scrapes("newer", "older")
		agents["newer"].kill()
		scrapes("older", "newer")
		agents["older"].kill()
	})
}

// Pages of an agent obey the rules of this process's own: the pod must hold its address, an end is an end, and a result that
// this version does not know is one that it knows.
func TestPagesOfAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("web", "10.0.0.1", text("a 1\n"), metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: time.Second})
		w.nodes["web"] = "n"
		agent, stranger := w.Enter("n"), w.Enter("m") // before the first look: the process would scrape the pod itself
		w.run()
		time.Sleep(settled + lookEvery)
		synctest.Wait()
		w.took()
		add, _ := agent.News()
		if len(add) != 1 || len(add[0].Names) != 1 || add[0].Address != w.pods[0].Address || add[0].UID != "uid-web" {
			t.Fatalf("targets %+v", add)
		}
		page := metric.ScrapedPage{Target: add[0].Number, Result: "ok", Bytes: 4, Lines: []byte("a 5\n")}
		send := func(from *Agent, change func(p *metric.ScrapedPage)) string {
			p := page
			change(&p)
			from.Take(&p)
			to := w.Targets("")[0]
			return strings.TrimSpace(fmt.Sprint(w.took(), " ", to.Result, " ", to.Error))
		}
		for _, c := range []struct {
			name   string
			from   *Agent
			change func(*metric.ScrapedPage)
			want   string
		}{
			{"of another node", stranger, func(*metric.ScrapedPage) {}, "[]"},
			{"of another target", agent, func(p *metric.ScrapedPage) { p.Target++ }, "[]"},
			{"right", agent, func(*metric.ScrapedPage) {}, "[web a=5] ok"},
			{"unreachable", agent, func(p *metric.ScrapedPage) { p.Result, p.Fault = "timeout", "too slow" }, "[] timeout too slow"},
			{"of a later version", agent, func(p *metric.ScrapedPage) { p.Result, p.Fault = "new", "x" }, "[] unreachable x"},
			{"bad lines", agent, func(p *metric.ScrapedPage) { p.Lines = []byte("a x\n") }, "[] unreadable the lines of the named metrics are not valid"},
			{"another pod's address", agent, func(*metric.ScrapedPage) { w.change(func() { w.holders[w.pods[0].Address] = nil }) }, "[] moved the pod does not hold its address alone"},
		} {
			if got := send(c.from, c.change); !strings.HasPrefix(got, c.want) || c.want == "[]" && got != "[]" {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
		agent.Take(&metric.ScrapedPage{Target: add[0].Number, Result: "missing", Missing: []string{"\x1b[31mlies"}})
		if got := w.Targets("")[0].Missing; len(got) != 0 {
			t.Errorf("missing are %q", got)
		}
		agent.Take(&metric.ScrapedPage{Target: add[0].Number, Result: "missing", Missing: []string{"a"}})
		if got := w.Targets("")[0].Missing; len(got) != 1 {
			t.Errorf("missing are %q", got)
		}
	})
}

// A node's agent gets the oldest 1,000 pods of the node, beside those that this process scrapes.
func TestSurplusOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range MaxPods + 2 {
			w.pod(fmt.Sprint("web", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200), nil, metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: 5 * time.Minute})
			w.pods[i].Created = int64(10_000 - i)
			w.nodes[fmt.Sprint("web", i)] = "n"
		}
		agent := w.Enter("n")
		w.run()
		time.Sleep(settled + 2*lookEvery)
		synctest.Wait()
		add, _ := agent.News()
		number := map[string]int{}
		for _, target := range w.Targets("") {
			number[target.State+" "+target.Agent]++
		}
		if len(add) != MaxPods || number["waiting n"] != MaxPods || number["surplus "] != 2 {
			t.Errorf("%d targets, %v", len(add), number)
		}
	})
}
