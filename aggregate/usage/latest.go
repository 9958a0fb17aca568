package usage

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// staleAfter is the time without news of a node after which its usage is not served.
const staleAfter = time.Minute

// Pod is a pod as a cluster knows it.
type Pod struct {
	Namespace, Name, Node string
	Created               time.Time
	Labels                map[string]string
}

// began reports whether something began within the pod's life: a pod's creation is known to the second.
func (p *Pod) began(at time.Time) bool { return at.IsZero() || !at.Before(p.Created) }

// Latest keeps the newest records of each node. It is safe for concurrent use.
type Latest struct {
	mu    sync.RWMutex // guards nodes; a node's records never change
	nodes map[string]*nodeRecords
}

type nodeRecords struct {
	at   time.Time // when they came
	node *Record   // nil: not measured
	pods map[metric.Container][]Record
}

// NewLatest knows no node.
func NewLatest() *Latest { return &Latest{nodes: map[string]*nodeRecords{}} }

// Set replaces what is known of a node. Records are ordered by name.
func (l *Latest) Set(node string, records []Record, now time.Time) {
	n := &nodeRecords{at: now, pods: map[metric.Container][]Record{}}
	for i := range records {
		name := records[i].Container
		if name.Pod == "" {
			n.node = &records[i]
			continue
		}
		pod := podOf(name)
		n.pods[pod] = append(n.pods[pod], records[i])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes[node] = n
	maps.DeleteFunc(l.nodes, func(_ string, n *nodeRecords) bool { return now.Sub(n.at) > staleAfter })
}

func (l *Latest) of(node string, now time.Time) *nodeRecords {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n := l.nodes[node]; n != nil && now.Sub(n.at) <= staleAfter {
		return n
	}
	return nil
}

// Nodes lists the nodes of which there is something, by name.
func (l *Latest) Nodes(now time.Time) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var names []string
	for name, n := range l.nodes {
		if n.node != nil && now.Sub(n.at) <= staleAfter {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Node returns what a node uses, and how metrics-server would say it; nil: nothing is known, or it waits.
func (l *Latest) Node(name string, now time.Time) *Record {
	n := l.of(name, now)
	if n == nil {
		return nil
	}
	return n.node
}

// Containers returns what the containers of a pod use: those that started within its life. A former pod of its name had the others.
func (l *Latest) Containers(p *Pod, now time.Time) []Record {
	n := l.of(p.Node, now)
	if n == nil {
		return nil
	}
	records := n.pods[metric.Container{Namespace: p.Namespace, Pod: p.Name}]
	for i := range records {
		if !p.began(records[i].Started) {
			return nil
		}
	}
	return records
}

// Served returns what metrics-server would say of a pod: each container whose processor time did not fall. Not ok: the pod is
// not served, because nothing is known of it, or not enough of one of its containers.
func (l *Latest) Served(p *Pod, now time.Time) (containers []Record, end time.Time, window time.Duration, ok bool) {
	for _, r := range l.Containers(p, now) {
		switch r.Newest.State {
		case Waits, Zero:
			return nil, time.Time{}, 0, false
		case Fell:
			ok = true
			continue
		}
		containers, ok = append(containers, r), true
		if end.IsZero() || r.Newest.End.Before(end) {
			end, window = r.Newest.End, r.Newest.Window
		}
	}
	return containers, end, window, ok
}

// Renewed reports whether the windows of a pod's containers begin before the pod was created: they have usage of a former pod of its
// name, of which the agent must be told.
func (p *Pod) Renewed(r *Record) bool { return !p.began(r.Since) }
