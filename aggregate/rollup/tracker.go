package rollup

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// Bounds of the memory. A pod has 100 series, but selectors pick the few label sets that all pods
// of a workload share. The others would be one set per pod or user.
const (
	maxLabelSets = 16       // per metric of a workload: the first ones
	maxBytes     = 32 << 20 // of all workloads
	maxWorkload  = 1 << 20  // of one: its document is written whole when it changes
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
	records     map[recordID]*record
	pusherCount map[metricName]int // number of workloads that have pushed it
	keys        map[Key]recordID   // of records, and of removed ones that are still on disk
	changed     map[Key]struct{}
	// unresolved are the records of ReplicaSets whose owner is not known yet.
	unresolved map[recordID]struct{}
	bytes      fair.Shares[string, int64] // by namespace
	unknown    []unknownPush
	unknownOf  fair.Shares[string, int] // the number of unknown, by namespace
}

type metricName struct{ namespace, name string }

// recordID identifies a workload. Pods name their controller themselves, so one of another namespace may name any
// UID; a controller has pods in its own namespace only.
type recordID struct{ namespace, uid string }

// record holds the metrics that one workload has pushed.
type record struct {
	workload  metric.Workload
	namespace string
	metrics   map[string]*pushedMetric
	lastPod   time.Time // last time that it had a pod
	bytes     int64     // of it and its metrics
}

// pushedMetric is one counter or set.
type pushedMetric struct {
	kind      metric.Kind
	labelSets []metric.Labels // at most maxLabelSets
}

// NewTracker makes an empty tracker.
func NewTracker(pods Pods) *Tracker {
	return &Tracker{
		pods: pods, records: map[recordID]*record{}, pusherCount: map[metricName]int{},
		keys: map[Key]recordID{}, changed: map[Key]struct{}{}, unresolved: map[recordID]struct{}{},
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
	workload, resolved, ok := m.pods.Workload(*o)
	if !ok {
		return false
	}
	id := recordID{o.Namespace, workload.UID}
	m.mu.RLock()
	known := m.records[id].has(name, kind, labels)
	m.mu.RUnlock()
	if known {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(workload, o.Namespace, name, kind, labels)
	if !resolved {
		m.unresolved[id] = struct{}{}
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
func (m *Tracker) addLocked(w metric.Workload, namespace, name string, kind metric.Kind,
	labels metric.Labels) {
	id := recordID{namespace, w.UID}
	r := m.records[id]
	if r.has(name, kind, labels) || m.bytes.More(namespace, maxBytes) <= 0 || r != nil && r.bytes >= maxWorkload {
		return
	}
	if r == nil {
		r = &record{workload: w, namespace: namespace, metrics: map[string]*pushedMetric{},
			lastPod: time.Now()}
		m.records[id] = r
		m.countLocked(r, r.size())
	}
	p := r.metrics[name]
	if p == nil {
		p = &pushedMetric{kind: kind}
		r.metrics[name] = p
		m.pusherCount[metricName{namespace, name}]++
	} else {
		m.countLocked(r, -p.size(name))
	}
	if p.kind != kind {
		p.kind, p.labelSets = kind, nil
	}
	p.labelSets = append(p.labelSets, labels)
	m.countLocked(r, p.size(name))
	m.changedLocked(id)
}

func (m *Tracker) countLocked(r *record, bytes int64) {
	m.bytes.Add(r.namespace, bytes)
	r.bytes += bytes
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

// PushedKind returns the kind of a metric that a pod of the namespace's workload has pushed with
// matching labels (match nil: any). metric.NoKind: none has.
func (m *Tracker) PushedKind(namespace string, workload metric.Workload, name string,
	match func(metric.Labels) bool) metric.Kind {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := m.records[recordID{namespace, workload.UID}]
	if r == nil {
		return metric.NoKind
	}
	p := r.metrics[name]
	if p == nil || match != nil && !slices.ContainsFunc(p.labelSets, match) {
		return metric.NoKind
	}
	return p.kind
}

// A series of another replica may be born before this replica's cluster view knows its pod. It is
// kept until the pod is known, for a minute, and recorded then. Those of pods without a controller
// are kept as long, so one namespace has at most three times what is left.
const (
	keepUnknown = time.Minute
	maxUnknown  = 10_000
)

// unknownPush is a series of a pod that is not known yet.
type unknownPush struct {
	pod    metric.Object
	name   string
	kind   metric.Kind
	labels metric.Labels
	until  time.Time
}

// Foreign observes the series of other replicas. Their pods have pushed, too.
type Foreign struct{ tracker *Tracker }

// Foreign returns the observer of other replicas' series.
func (m *Tracker) Foreign() Foreign { return Foreign{m} }

// SeriesCreated implements aggregate.Observer.
func (f Foreign) SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels) {
	m := f.tracker
	if m.record(o, name, kind, labels) || o.Resource != "pods" || kind != metric.Counter && kind != metric.Set {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unknownOf.More(o.Namespace, maxUnknown) > 0 {
		m.unknownOf.Add(o.Namespace, 1)
		m.unknown = append(m.unknown, unknownPush{*o, name, kind, labels, time.Now().Add(keepUnknown)})
	}
}

// retryUnknown records the series whose pod has become known.
func (m *Tracker) retryUnknown() {
	m.mu.Lock()
	waiting := m.unknown
	m.unknown = nil
	m.mu.Unlock()
	now := time.Now()
	var still, ended []unknownPush
	for _, u := range waiting {
		if m.record(&u.pod, u.name, u.kind, u.labels) || !now.Before(u.until) {
			ended = append(ended, u)
		} else {
			still = append(still, u)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range ended {
		m.unknownOf.Add(u.pod.Namespace, -1)
	}
	m.unknown = append(still, m.unknown...)
}

// ResolveOwners moves the metrics of ReplicaSets to the workloads that own them, as soon as the
// cluster view knows the owner, and records other replicas' series whose pod has become known. It
// is called every second.
func (m *Tracker) ResolveOwners() {
	m.retryUnknown()
	m.mu.RLock()
	unsettled := maps.Clone(m.unresolved)
	m.mu.RUnlock()
	for id := range unsettled {
		m.resolveOwner(id)
	}
}

func (m *Tracker) resolveOwner(id recordID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[id]
	if r == nil {
		delete(m.unresolved, id)
		return
	}
	owner, resolved := m.pods.Owner(r.workload)
	if !resolved {
		return
	}
	delete(m.unresolved, id)
	if owner.UID == id.uid {
		return
	}
	m.removeLocked(id) // makes room
	for name, p := range r.metrics {
		for _, set := range p.labelSets {
			m.addLocked(owner, r.namespace, name, p.kind, set)
		}
	}
}

// Expire removes the workloads that have had no pod for a day. It looks at all pods, so it is
// called every few minutes, once the cluster view is synced.
func (m *Tracker) Expire() { m.expireAsOf(time.Now()) }

func (m *Tracker) expireAsOf(now time.Time) {
	living := map[string]struct{}{}
	for workload := range m.pods.Workloads() {
		living[workload.UID] = struct{}{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.records {
		if _, lives := living[id.uid]; lives {
			r.lastPod = now
		} else if now.Sub(r.lastPod) > keepWithoutPods {
			m.removeLocked(id)
		}
	}
}

func (m *Tracker) removeLocked(id recordID) {
	r := m.records[id]
	m.countLocked(r, -r.bytes)
	for name := range r.metrics {
		key := metricName{r.namespace, name}
		if m.pusherCount[key]--; m.pusherCount[key] == 0 {
			delete(m.pusherCount, key)
		}
	}
	delete(m.records, id)
	delete(m.unresolved, id)
	m.changedLocked(id)
}
