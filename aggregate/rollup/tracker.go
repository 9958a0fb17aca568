package rollup

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Bounds of the memory. A pod has 100 series, but selectors pick the few label sets that all pods
// of a workload share. The others would be one set per pod or user.
const (
	maxLabelSets = 16       // per metric of a workload: the first ones
	maxBytes     = 32 << 20 // of all workloads
)

// keepWithoutPods is how long a workload without pods is kept: it may be scaled to zero.
const keepWithoutPods = 24 * time.Hour

// Pods knows the workloads of pods. Its methods answer from memory.
type Pods interface {
	// Workload returns the workload of a pod. Not ok: the pod is gone or has no controller. Not
	// resolved: the workload is a ReplicaSet whose owner is not known yet.
	Workload(pod metric.Object) (of metric.Workload, resolved, ok bool)
	// Owner returns the workload that owns a ReplicaSet, or the workload itself.
	Owner(of metric.Workload) (owner metric.Workload, resolved bool)
	// Workloads yields the workloads of all live pods, possibly more than once.
	Workloads() iter.Seq[metric.Workload]
}

// Tracker holds the metrics that workloads have pushed. Any goroutine may call its methods.
type Tracker struct {
	pods Pods

	mu          sync.RWMutex
	records     map[string]*record // by the workload's UID
	pusherCount map[metricName]int // number of workloads that have pushed it
	keys        map[Key]string     // of records, and of removed ones that are still on disk
	changed     map[Key]struct{}
	// unresolved are the records of ReplicaSets whose owner is not known yet.
	unresolved map[string]struct{}
	bytes      int64
	unknown    []unknownPush
}

type metricName struct{ namespace, name string }

// record holds the metrics that one workload has pushed.
type record struct {
	workload  metric.Workload
	namespace string
	metrics   map[string]*pushedMetric
	lastPod   time.Time // last time that it had a pod
}

// pushedMetric is one counter or set.
type pushedMetric struct {
	kind      metric.Kind
	labelSets []metric.Labels // at most maxLabelSets
}

// NewTracker makes an empty tracker.
func NewTracker(pods Pods) *Tracker {
	return &Tracker{
		pods: pods, records: map[string]*record{}, pusherCount: map[metricName]int{},
		keys: map[Key]string{}, changed: map[Key]struct{}{}, unresolved: map[string]struct{}{},
	}
}

// SeriesCreated records a new series. It implements aggregate.Observer. The strings outlive the
// call, the object does not.
func (m *Tracker) SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels) {
	m.record(o, name, kind, labels)
}

// record records a series. It reports false for a series of an unknown pod, and for one that does
// not count.
func (m *Tracker) record(o *metric.Object, name string, kind metric.Kind, labels metric.Labels) bool {
	if o.Resource != "pods" || kind != metric.Counter && kind != metric.Set {
		return false
	}
	of, resolved, ok := m.pods.Workload(*o)
	if !ok {
		return false
	}
	m.mu.RLock()
	known := m.records[of.UID].has(name, kind, labels)
	m.mu.RUnlock()
	if known {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(of, o.Namespace, name, kind, labels)
	if !resolved {
		m.unresolved[of.UID] = struct{}{}
	}
	return true
}

func (r *record) has(name string, kind metric.Kind, labels metric.Labels) bool {
	if r == nil {
		return false
	}
	p := r.metrics[name]
	return p != nil && p.kind == kind && (len(p.labelSets) == maxLabelSets || slices.Contains(p.labelSets, labels))
}

// addLocked adds a label set of a metric. If the metric's kind changed, it forgets the label sets
// of the old kind.
func (m *Tracker) addLocked(of metric.Workload, namespace, name string, kind metric.Kind,
	labels metric.Labels) {
	r := m.records[of.UID]
	if r.has(name, kind, labels) || m.bytes >= maxBytes {
		return
	}
	if r == nil {
		r = &record{workload: of, namespace: namespace, metrics: map[string]*pushedMetric{},
			lastPod: time.Now()}
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

// Approximate sizes in memory, with the spare capacity of maps, slices and strings.
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

// AnyPushed reports whether a pod of the namespace has pushed a counter or a set of that name.
func (m *Tracker) AnyPushed(namespace, name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pusherCount[metricName{namespace, name}] > 0
}

// PushedKind returns the kind of a metric that a pod of the workload has pushed with matching
// labels (match nil: any). metric.NoKind: none has.
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
