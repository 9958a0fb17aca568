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
	Namespace, Name, UID, Node string
	Created                    time.Time // by the API server's clock
	// Started is when the first container started, by the node's clock; zero: not known. It is before Created where
	// that clock is behind, and of a static pod, whose object is made after its containers.
	Started time.Time
	// Labels makes a copy of the labels, which most who list pods don't need; nil: none are known.
	// LabelBytes is the length of their text.
	Labels     func() map[string]string
	LabelBytes int
}

// LabelMap is a copy of the labels.
func (p *Pod) LabelMap() map[string]string {
	if p.Labels == nil {
		return nil
	}
	return p.Labels()
}

// Began is the moment from which usage is the pod's, to the second. A former pod of its name started earlier.
func (p *Pod) Began() time.Time {
	if !p.Started.IsZero() && p.Started.Before(p.Created) {
		return p.Started
	}
	return p.Created
}

// includes reports whether something began within the pod's life.
func (p *Pod) includes(at time.Time) bool { return at.IsZero() || !at.Before(p.Began()) }

// Report is what a node's agent says.
type Report struct {
	// Number is greater than that of each former report of the node, if its clock was not set back.
	Number  uint64
	At      time.Time // when the agent said it
	Records []Record
	// Seconds are those of the records, in the order of their containers; nil: the source has none.
	Seconds *Seconds
	// Own: the agent said it to this process, not to another replica.
	Own bool
}

// Seconds are the newest of a report's containers, by the order of their names. They never change.
type Seconds struct {
	At     time.Time // of the measurement
	Values []Second
}

// Latest keeps the newest report of each node. It is safe for concurrent use.
type Latest struct {
	mu    sync.RWMutex // guards the fields below, and Own and Seconds of each report; the rest of a report never changes
	nodes map[string]*nodeReport
	// version numbers the reports that were taken, and news those with the seconds between them.
	version, news uint64
	swept         time.Time // when stale reports were dropped: not with each report of 10,000 nodes
}

type nodeReport struct {
	Report
	version uint64
	node    *Record                   // nil: not measured; the first of Records
	pods    map[metric.Container]span // parts of Records
}

// span is a part of a report's records.
type span struct{ first, end int }

func (n *nodeReport) fresh(now time.Time) bool { return n != nil && now.Sub(n.At) <= staleAfter }

// NewLatest knows no node.
func NewLatest() *Latest { return &Latest{nodes: map[string]*nodeReport{}} }

// Set replaces the report of a node, unless the one it has is as new and not stale.
func (l *Latest) Set(node string, report Report, now time.Time) {
	n := newNodeReport(report)
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) >= staleAfter/6 {
		l.swept = now
		maps.DeleteFunc(l.nodes, func(_ string, n *nodeReport) bool { return !n.fresh(now) })
	}
	held := l.nodes[node]
	switch {
	case !n.fresh(now):
	case !held.fresh(now) || held.Number < n.Number:
		l.version, l.news = l.version+1, l.news+1
		n.version, l.nodes[node] = l.version, n
	case held.Number == n.Number && n.Own:
		held.Own = true // the agent has moved here
	}
}

func newNodeReport(report Report) *nodeReport {
	n := &nodeReport{Report: report, pods: map[metric.Container]span{}}
	all := report.Records
	slices.SortFunc(all, func(a, b Record) int { return compare(a.Container, b.Container) })
	for first := 0; first < len(all); {
		pod, end := podOf(all[first].Container), first+1
		for end < len(all) && podOf(all[end].Container) == pod {
			end++
		}
		if pod.Pod == "" {
			n.node = &all[first]
		} else {
			n.pods[pod] = span{first, end}
		}
		first = end
	}
	n.Seconds = n.fitting(report.Seconds)
	return n
}

// fitting returns seconds if they are of the report's records.
func (n *nodeReport) fitting(s *Seconds) *Seconds {
	if s == nil || len(s.Values) != len(n.Records) {
		return nil
	}
	return s
}

// SetSeconds replaces the seconds of a node's report of a number.
func (l *Latest) SetSeconds(node string, number uint64, seconds *Seconds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nodes[node]; n != nil && n.Number == number && n.fitting(seconds) != nil {
		n.Seconds, l.news = seconds, l.news+1
	}
}

// News numbers what was taken, reports and seconds.
func (l *Latest) News() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.news
}

func (l *Latest) of(node string, now time.Time) *nodeReport {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n := l.nodes[node]; n.fresh(now) {
		return n
	}
	return nil
}

// Version returns the number of a node's newest report, among all, and that of the newest report of all. 0: there is none, or
// it is stale.
func (l *Latest) Version(node string, now time.Time) (of, newest uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n := l.nodes[node]; n.fresh(now) {
		of = n.version
	}
	return of, l.version
}

// Own lists the nodes whose agents speak to this process.
func (l *Latest) Own(now time.Time) (nodes []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for name, n := range l.nodes {
		if n.Own && n.fresh(now) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// Report returns the newest report of a node; not ok: there is none.
func (l *Latest) Report(node string, now time.Time) (r Report, ok bool) {
	n := l.of(node, now)
	if n == nil {
		return r, false
	}
	return Report{Number: n.Number, At: n.At, Records: n.Records, Seconds: l.seconds(n)}, true
}

// Nodes lists the nodes of which there is something, by name.
func (l *Latest) Nodes(now time.Time) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var names []string
	for name, n := range l.nodes {
		if n.node != nil && n.fresh(now) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Node returns what a node uses that was created then, and how metrics-server would say it; nil:
// nothing is known, or it waits. A former node of its name sent the reports from before. A zero time:
// the creation is not known.
func (l *Latest) Node(name string, created, now time.Time) *Record {
	n := l.of(name, now)
	if n == nil || n.At.Before(created) {
		return nil
	}
	return n.node
}

// Containers returns what the containers of a pod use: those that started within its life. A former pod of
// its name had the others.
func (l *Latest) Containers(p *Pod, now time.Time) []Record {
	records, _ := l.containers(p, now)
	return records
}

// containers returns what the containers of a pod use, and the newest seconds of them; nil: there are none.
func (l *Latest) containers(p *Pod, now time.Time) ([]Record, *Seconds) {
	n := l.of(p.Node, now)
	if n == nil {
		return nil, nil
	}
	at := n.pods[metric.Container{Namespace: p.Namespace, Pod: p.Name}]
	records := n.Records[at.first:at.end:at.end]
	for i := range records {
		if !p.includes(records[i].Started) {
			return nil, nil
		}
	}
	return records, l.seconds(n).part(at)
}

func (l *Latest) seconds(n *nodeReport) *Seconds {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return n.Seconds
}

func (s *Seconds) part(of span) *Seconds {
	if s == nil {
		return nil
	}
	return &Seconds{s.At, s.Values[of.first:of.end]}
}

// nodeSeconds returns the newest second of a node; nil: there is none.
func (l *Latest) nodeSeconds(name string, now time.Time) *Seconds {
	if n := l.of(name, now); n != nil && n.node != nil {
		return l.seconds(n).part(span{0, 1})
	}
	return nil
}

// Served returns what metrics-server would say of a pod: each container whose processor time did not fall.
// Not ok: the pod is not served, because nothing is known of it, or not enough of one of its containers.
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

// Renewed reports whether the windows of a pod's containers begin before the pod did: they have usage of a former
// pod of its name, of which the agent must be told.
func (p *Pod) Renewed(r *Record) bool { return !p.includes(r.Since) }
