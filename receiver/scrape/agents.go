package scrape

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// heardFor is the time without a word of an agent, which says something every five seconds, after which this
	// process scrapes the pods of its node.
	heardFor = 7 * time.Second
	// settled is the age from which an agent gets targets. One that starts again and again gets none.
	settled = time.Second
	// expectFor is the time for which an agent that has gone is expected to be back.
	expectFor = 3 * time.Second
)

// Agent is an agent that scrapes the pods of its node. Any goroutine may call Take and Namespace, and one the other methods.
type Agent struct {
	scraper *Scraper
	node    string
	came    time.Time
	heard   atomic.Int64 // a time.Duration since it came, which no change of the wall clock affects

	// The scraper's lock guards what the agent was not told yet.
	add  []metric.ScrapeTarget
	drop []uint64
}

// node is one that has agents, or had one lately. The scraper's lock guards it.
type node struct {
	agents []*Agent // the newest is the last
	left   time.Time
	// told: this replica has told the others that it scrapes for the newest agent.
	told bool
}

// Enter is told of an agent that scrapes for a node. The newest of several does.
func (s *Scraper) Enter(of string) *Agent {
	a := &Agent{scraper: s, node: of, came: time.Now()}
	a.Heard()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[of]
	if n == nil {
		n = &node{}
		s.nodes[of] = n
	}
	n.agents, n.told = append(n.agents, a), false
	return a
}

// Leave ends an agent.
func (a *Agent) Leave() {
	s := a.scraper
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[a.node]
	n.agents = slices.DeleteFunc(n.agents, func(other *Agent) bool { return other == a })
	n.left = time.Now()
}

// Heard notes that the agent lives.
func (a *Agent) Heard() { a.heard.Store(int64(time.Since(a.came))) }

// News returns the targets that the agent gets, and the numbers of those that it loses, since the last call. It
// loses them first.
func (a *Agent) News() (add []metric.ScrapeTarget, drop []uint64) {
	a.scraper.mu.Lock()
	defer a.scraper.mu.Unlock()
	add, drop = a.add, a.drop
	a.add, a.drop = nil, nil
	return add, drop
}

// Namespace is that of a target's pod; empty: there is no such target any more.
func (a *Agent) Namespace(target uint64) string {
	a.scraper.mu.Lock()
	defer a.scraper.mu.Unlock()
	if t := a.scraper.byNumber[target]; t != nil {
		return t.pod.Namespace
	}
	return ""
}

// Take takes a page that the agent has fetched.
func (a *Agent) Take(p *metric.ScrapedPage) { a.scraper.take(a, p) }

// nodeName is the agent's node; empty: there is no agent.
func (a *Agent) nodeName() string {
	if a == nil {
		return ""
	}
	return a.node
}

// look finds the newest agent that is heard, or says that one is expected.
func (n *node) look(now time.Time) (scrapes *Agent, expected bool) {
	for _, a := range slices.Backward(n.agents) {
		switch {
		case now.Sub(a.came)-time.Duration(a.heard.Load()) >= heardFor:
		case now.Sub(a.came) < settled:
			expected = true
		default:
			return a, false
		}
	}
	return nil, expected || now.Sub(n.left) < expectFor
}
