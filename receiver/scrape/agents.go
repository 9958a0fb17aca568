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
	// expectFor is the time for which an agent that has gone is expected to be back,.
	expectFor = 3 * time.Second
)

// Agent is an agent that scrapes the pods of its node. Any goroutine may call Take, and one the other methods.
type Agent struct {
	scraper *Scraper
	node    string
	came    time.Time
	heard   atomic.Int64 // Unix nanoseconds

	// The scraper's lock guards what the agent was not told yet.
	add  []metric.ScrapeTarget
	drop []uint64
}

// node is one that has agents, or had one lately. The scraper's lock guards it.
type node struct {
	agents []*Agent // the newest is the last
	left   time.Time
	// scrapes is the agent that is heard, and expected reports whether one is expected, when that was looked at last.
	scrapes  *Agent
	expected bool
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
	n.agents = append(n.agents, a)
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
func (a *Agent) Heard() { a.heard.Store(time.Now().UnixNano()) }

// News returns the targets that the agent gets, and the numbers of those that it loses, since the last call. It
// loses them first.
func (a *Agent) News() (add []metric.ScrapeTarget, drop []uint64) {
	a.scraper.mu.Lock()
	defer a.scraper.mu.Unlock()
	add, drop = a.add, a.drop
	a.add, a.drop = nil, nil
	return add, drop
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

// agentsChanged looks at who scrapes for which node, and reports whether that has changed.
func (s *Scraper) agentsChanged(now time.Time) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.nodes {
		scrapes, expected := n.look(now)
		if scrapes != n.scrapes || expected != n.expected {
			n.scrapes, n.expected, changed = scrapes, expected, true
		}
		if len(n.agents) == 0 && !expected {
			delete(s.nodes, name)
		}
	}
	return changed
}

// look finds the newest agent that is heard, or says that one is expected.
func (n *node) look(now time.Time) (scrapes *Agent, expected bool) {
	for _, a := range slices.Backward(n.agents) {
		switch {
		case now.UnixNano()-a.heard.Load() >= int64(heardFor):
		case now.Sub(a.came) < settled:
			expected = true
		default:
			return a, false
		}
	}
	return nil, expected || now.Sub(n.left) < expectFor
}

// scraperLocked is the agent that scrapes a pod; nil: this process. It may not begin to while an agent is expected.
func (s *Scraper) scraperLocked(pod *metric.Pod) (a *Agent, may bool) {
	if len(s.nodes) == 0 {
		return nil, true
	}
	n := s.nodes[s.parts.NodeOf(pod)]
	if n == nil {
		return nil, true
	}
	return n.scrapes, !n.expected
}
