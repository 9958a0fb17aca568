package workload

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// What is remembered at most. A pod has 100 series, but what a selector picks are the few label sets that all pods of a
// workload share; the rest would be one set a pod or a user.
const (
	maxLabelSets = 16       // of a metric of a workload: the first ones
	maxBytes     = 32 << 20 // of all workloads
)

// keptWithoutPods is how long a workload is remembered that has no pod: it may be scaled to zero.
const keepWithoutPods = 24 * time.Hour

// Pods says which workload a pod belongs to. It answers from memory.
type Pods interface {
	// Workload returns the workload of a pod. Not ok: the pod is gone, or has no controller. Not settled: it is a
	// ReplicaSet, and the cluster has not told yet whose.
	Workload(pod metric.Object) (of metric.Workload, settled, ok bool)
	// Owner returns the workload that a ReplicaSet is a part of: itself, if it is of no other.
	Owner(of metric.Workload) (owner metric.Workload, settled bool)
	// Workloads yields the workloads of all live pods; one may come more than once.
	Workloads() iter.Seq[metric.Workload]
}

// Memory holds what workloads have pushed. Any goroutine may call its methods.
type Tracker struct {
	pods Pods

	mu          sync.RWMutex
	records     map[string]*record // by the workload's UID
	pusherCount map[metricName]int // how many workloads have pushed it
	keys        map[Key]string     // of records, and of those that are gone and still on disk
	changed     map[Key]struct{}
	// unsettled are the records of ReplicaSets of which it is not known yet whose they are.
	unresolved map[string]struct{}
	bytes      int64
}

type metricName struct{ namespace, name string }

// record is what one workload has pushed.
type record struct {
	workload  metric.Workload
	namespace string
	metrics   map[string]*pushedMetric
	lastPod   time.Time // when it was last seen to have one
}

// pushed is one counter or set.
type pushedMetric struct {
	kind      metric.Kind
	labelSets []metric.Labels // at most maxLabelSets
}

// New makes an empty memory.
func New(pods Pods) *Tracker {
	return &Tracker{
		pods: pods, records: map[string]*record{}, pusherCount: map[metricName]int{},
		keys: map[Key]string{}, changed: map[Key]struct{}{}, unresolved: map[string]struct{}{},
	}
}

// Born takes note of a new series. It implements aggregate.Witness: the strings outlive the call, the object does not.
func (m *Tracker) Born(o *metric.Object, name string, kind metric.Kind, labels metric.Labels) {
	if o.Resource != "pods" || kind != metric.Counter && kind != metric.Set {
		return
	}
	of, settled, ok := m.pods.Workload(*o)
	if !ok {
		return
	}
	m.mu.RLock()
	known := m.records[of.UID].has(name, kind, labels)
	m.mu.RUnlock()
	if known {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(of, o.Namespace, name, kind, labels)
	if !settled {
		m.unresolved[of.UID] = struct{}{}
	}
}

func (r *record) has(name string, kind metric.Kind, labels metric.Labels) bool {
	if r == nil {
		return false
	}
	p := r.metrics[name]
	return p != nil && p.kind == kind && (len(p.labelSets) == maxLabelSets || slices.Contains(p.labelSets, labels))
}

// noteLocked adds a label set of a metric. Of a metric that has another kind now the old one is forgotten.
func (m *Tracker) addLocked(of metric.Workload, namespace, name string, kind metric.Kind, labels metric.Labels) {
	r := m.records[of.UID]
	if r.has(name, kind, labels) || m.bytes >= maxBytes {
		return
	}
	if r == nil {
		r = &record{workload: of, namespace: namespace, metrics: map[string]*pushedMetric{}, lastPod: time.Now()}
		m.records[of.UID] = r
		m.bytes += r.size()
	}
	p := r.metrics[name]
	if p == nil {
		p = &pushedMetric{kind: kind}
		r.metrics[name] = p
		m.pusherCount[metricName{namespace, name}]++
		m.bytes += p.size(name)
	}
	m.bytes -= p.size(name)
	if p.kind != kind {
		p.kind, p.labelSets = kind, nil
	}
	p.labelSets = append(p.labelSets, labels)
	m.bytes += p.size(name)
	m.changedLocked(of.UID)
}

// Sizes in memory, about: maps, slices and strings have some room to spare.
func (r *record) size() int64 {
	return int64(400 + len(r.workload.Kind) + len(r.workload.Name) + len(r.workload.UID))
}

func (p *pushedMetric) size(name string) int64 {
	n := 150 + len(name)
	for _, set := range p.labelSets {
		n += 24 + len(set.Packed())
	}
	return int64(n)
}

// Any reports whether a pod of the namespace has pushed a counter or a set of that name.
func (m *Tracker) AnyPushed(namespace, name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pusherCount[metricName{namespace, name}] > 0
}

// By returns the kind of the metric that a pod of the workload has pushed with labels that match (nil: any).
// metric.NoKind: none has.
func (m *Tracker) PushedKind(of metric.Workload, name string, match func(metric.Labels) bool) metric.Kind {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := m.records[of.UID]
	if r == nil {
		return metric.NoKind
	}
	p := r.metrics[name]
	if p == nil || match != nil && !slices.ContainsFunc(p.labelSets, match) {
		return metric.NoKind
	}
	return p.kind
}
