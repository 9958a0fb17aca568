package rollup

import (
	"iter"

	"github.com/sluice-metrics/sluice/metric"
)

// podResource is the canonical resource of pods.
const podResource = "pods"

// Snapshot answers queries from the tables as of one moment. One goroutine uses it, for a short time.
// aggregate.Snapshot implements it.
type Snapshot interface {
	Objects(metric.Query) ([]metric.Point, error)
	External(metric.Query) ([]metric.Point, error)
	// Zero returns the point of a counter or set without samples, without its object.
	Zero(metric.Expression) metric.Point
}

// Cluster knows the objects. Its methods answer from memory. Any goroutine may call them.
type Cluster interface {
	// ReadyPods returns the ready pods of a namespace, in any order, with their workloads, without
	// pods that have no controller. live is the number of pods, ready or not.
	ReadyPods(namespace string) (ready iter.Seq2[metric.Object, metric.Workload], live int)
	// ReadyPod returns a pod with its workload. Not ok: no such pod lives, it is not ready, or it
	// has no controller.
	ReadyPod(namespace, name string) (o metric.Object, of metric.Workload, ok bool)
	// PodOwners returns the objects of a resource and namespace that have live pods, of one name or
	// ("*") all, sorted by name: workloads by owner references, Services by their EndpointSlices.
	// metric.ErrNotReady: the pods are not known.
	PodOwners(resource, namespace, name string) ([]metric.PodOwner, error)
}

// Workloads knows which counters and sets the pods of a workload have pushed. Its methods answer
// from memory.
type Workloads interface {
	// AnyPushed reports whether a pod of the namespace has pushed a counter or a set of that name.
	AnyPushed(namespace, name string) bool
	// PushedKind returns the kind of a metric that a pod of the namespace's workload has pushed with
	// matching labels (match nil: any). metric.NoKind: none has.
	PushedKind(namespace string, of metric.Workload, name string, match func(metric.Labels) bool) metric.Kind
}

// Parts are the dependencies of a Reader. Cluster and Workloads are both set, or neither:
// standalone, where the tables answer.
type Parts struct {
	// Begin starts the queries of a moment at the tables.
	Begin     func() Snapshot
	Cluster   Cluster
	Workloads Workloads
	// Announces reports whether a metric is taken from a page that a pod announces: without a series it is
	// not known, and never 0. Nil: none is.
	Announces func(pod metric.Object, name string) bool
}

// A Reader answers queries. Any goroutine may use it.
type Reader struct{ parts Parts }

// New makes a Reader.
func New(parts Parts) *Reader { return &Reader{parts} }

// A Moment answers queries as of one moment: the first query's. One goroutine uses it, for less than
// a second. Its errors wrap metric.ErrNotFound, metric.ErrNotReady or metric.ErrInvalidQuery, and readers
// see their messages.
type Moment struct {
	reader   *Reader
	snapshot Snapshot
	owners   map[ownerKey][]metric.PodOwner // as found by the first query of each
}

// ownerKey selects objects with their pods.
type ownerKey struct{ resource, namespace, name string }

// Begin starts the queries of a moment.
func (r *Reader) Begin() *Moment {
	return &Moment{reader: r, snapshot: r.parts.Begin()}
}

// Objects returns one point per object that has the metric, sorted by name. The caller owns the
// points.
func (m *Moment) Objects(q metric.Query) ([]metric.Point, error) {
	switch r := m.reader; {
	case r.parts.Cluster == nil:
	case r.needsZeros(&q):
		return r.withZeros(m.snapshot, q)
	case q.RollUp != nil || MayRollUp(&q):
		return m.rolledUp(q)
	}
	return m.snapshot.Objects(q)
}

// External returns the points of a namespace's external metric, which the client adds up. The
// caller owns the points.
func (m *Moment) External(q metric.Query) ([]metric.Point, error) { return m.snapshot.External(q) }

// podOwners is Cluster.PodOwners. All queries of the moment get the same pods.
func (m *Moment) podOwners(resource, namespace, name string) ([]metric.PodOwner, error) {
	key := ownerKey{resource, namespace, name}
	if all, known := m.owners[key]; known {
		return all, nil
	}
	all, err := m.reader.parts.Cluster.PodOwners(resource, namespace, name)
	if err != nil {
		return nil, err
	}
	if m.owners == nil {
		m.owners = map[ownerKey][]metric.PodOwner{}
	}
	m.owners[key] = all
	return all, nil
}
