package agents

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// shortBreak is the time without a stream after which an agent is cut off: it shows its token again, or tries again.
	shortBreak = 15 * time.Second
	// maxVersion bounds the version that an agent says, in bytes.
	maxVersion = 40
)

// Node is what this process knows of the agent of a node.
type Node struct {
	Name, Version string // of the node; of Sluice
	State         State
	Since         time.Time // of the state
	Series        int       // of the stream that told last
	// Samples and Rejected are those since the first stream of the node.
	Samples, Rejected uint64
	LastFrame         time.Time
	Lag               time.Duration // age of the last frame when it came
	// Reason and Why are those of the last rejection.
	Reason metric.Reason
	Why    string
}

// State is that of a node's agent.
type State uint8

// States of an agent. One that stopped had said so.
const (
	Connected State = iota
	CutOff
	Stopped
)

// node counts for a node. The server's lock guards the fields before mu.
type node struct {
	streams     int
	began, left time.Time // of the first stream after the last break; when the last stream ended
	version     string
	stopped     bool

	held atomic.Int64 // bytes of series, and of what waits

	mu   sync.Mutex // guards told
	told Node
}

// enter notes a stream. The server's lock is held.
func (n *node) enter(version string, now time.Time) {
	if n.streams == 0 && now.Sub(n.left) > shortBreak {
		n.began = now
	}
	n.streams, n.version, n.stopped = n.streams+1, version, false
}

// leave notes the end of a stream. The server's lock is held.
func (n *node) leave(stopped bool, now time.Time) {
	n.streams--
	n.left, n.stopped = now, stopped && n.streams == 0 // the next agent of the node goes on
}

// framesCame counts what a stream has told.
func (n *node) framesCame(series int, samples uint64, lag time.Duration, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told.Series, n.told.Lag, n.told.LastFrame = series, lag, now
	n.told.Samples += samples
}

// rejected counts a rejection.
func (n *node) rejected(r *rejection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told.Rejected += r.samples
	if r.why != wasRejected {
		n.told.Reason, n.told.Why = r.reason, metric.Mask(r.why)
	}
}

// shown is the node as of now. The server's lock is held.
func (n *node) shown(name string) Node {
	n.mu.Lock()
	out := n.told
	n.mu.Unlock()
	out.Name, out.Version, out.Since = name, n.version, n.began
	switch {
	case n.streams > 0:
	case n.stopped:
		out.State, out.Since = Stopped, n.left
	case time.Since(n.left) > shortBreak:
		out.State, out.Since = CutOff, n.left
	}
	return out
}

// Nodes returns all nodes whose agent is connected, or was within the last hour.
func (s *Server) Nodes() []Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Node, 0, len(s.nodes))
	for name, n := range s.nodes {
		all = append(all, n.shown(name))
	}
	return all
}

// hasAgent reports whether a node has an agent, at any server, or had one lately.
func (s *Server) hasAgent(name string) bool {
	if s.parts.Nodes != nil && s.parts.Nodes.Has(name) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	return n != nil && (n.streams > 0 || time.Since(n.left) < formerFor)
}
