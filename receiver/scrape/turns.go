package scrape

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Shares say which one of several replicas scrapes the pods of a node, by the node's agent, and which one those
// of all nodes without (docs/adr/0100). Any goroutine may call the methods.
type Shares interface {
	// Take makes this replica the one that scrapes a share; perhaps it may not yet. Release ends that, if it is.
	Take(share string)
	Release(share string)
	// Of returns whether this replica has a share, and since when, or no replica has.
	Of(share string) (mine, free bool, since time.Time)
	// Changed has a token after other replicas have taken or released shares.
	Changed() <-chan struct{}
	// Ready reports whether this replica knows what the others scrape: it has not just started or stood still.
	Ready() bool
	// First reports whether this replica is the one that takes what nobody has.
	First() bool
}

// ShareOf is the share of a node whose agent scrapes, and RestShare that of all nodes without such an agent.
func ShareOf(node string) string { return "scrape/" + node }

// RestShare is a share.
const RestShare = "scrape"

// settles is the time after which this replica scrapes a share that it has taken. The one that had it before has
// heard that by then, and this one the last totals that the other one read, with the flush after them.
const settles = 2 * time.Second

// turn is who scrapes the pods of a node.
type turn struct {
	here  bool   // this replica does
	agent *Agent // that does, of this replica; nil: this process
	may   bool   // it may begin to
	// moved: another replica scraped them before. The first scrape is due then.
	moved bool
}

// turnsChanged looks at who scrapes for which node, and reports whether that has changed.
func (s *Scraper) turnsChanged(now time.Time) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, before := range s.turns {
		t := s.turnLocked(name, before, now)
		changed = changed || t != before
		s.turns[name] = t
	}
	for name, n := range s.nodes {
		if _, expected := n.look(now); len(n.agents) == 0 && !expected {
			delete(s.nodes, name)
			if s.parts.Shares != nil {
				s.parts.Shares.Release(ShareOf(name))
			}
		}
	}
	return changed
}

// turnOfLocked is the turn of a pod.
func (s *Scraper) turnOfLocked(pod *metric.Pod) turn {
	name := s.parts.NodeOf(pod)
	t, known := s.turns[name]
	if !known {
		t = s.turnLocked(name, turn{here: true}, time.Now())
		s.turns[name] = t
	}
	return t
}

// turnLocked finds out who scrapes for a node, and takes its share, or the rest, where this replica shall have it.
func (s *Scraper) turnLocked(name string, before turn, now time.Time) turn {
	var agent *Agent
	var expected bool
	n := s.nodes[name]
	if n != nil {
		agent, expected = n.look(now)
	}
	shares := s.parts.Shares
	if shares == nil {
		return turn{here: true, agent: agent, may: !expected}
	}
	t := turn{moved: before.moved || !before.here}
	share := ShareOf(name)
	mine, free, since := shares.Of(share)
	switch {
	case agent != nil && !mine && (free || !n.told) && shares.Ready():
		n.told = true
		shares.Take(share)
		mine, free, since = shares.Of(share)
	case mine && agent == nil && !expected:
		shares.Release(share)
		mine, free, since = shares.Of(share)
	}
	if free {
		agent = nil
		mine, since = s.takeRest()
	}
	t.here, t.agent, t.may = mine, agent, mine && !expected && now.Sub(since) >= settles
	return t
}

// takeRest takes what nobody scrapes, where this replica shall.
func (s *Scraper) takeRest() (mine bool, since time.Time) {
	shares := s.parts.Shares
	mine, free, since := shares.Of(RestShare)
	if free && shares.First() && shares.Ready() {
		shares.Take(RestShare)
		mine, _, since = shares.Of(RestShare)
	}
	return mine, since
}
