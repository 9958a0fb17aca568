package adapter

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/custom_metrics"
)

// uncounted completes the answers about pods: a ready pod that has no series reads 0 once another pod of its workload
// has pushed the counter or set. Without that the autoscaler, which may scale down the one pod that pushed, would read
// "not found" for ever and leave the replicas as they are.
type zeroFill struct {
	source    Source
	cluster   Cluster
	workloads Workloads
	query     metric.Query
	selector  labels.Selector // picks pods; nil: all

	kind   metric.Kind // of the series that answered; NoKind: there are none
	points []metric.Point
	ready  iter.Seq2[metric.Object, metric.Workload] // the pods that the query is about and that are ready
	live   int                                       // how many pods it is about, ready or not
}

// objectPoints asks the source, and completes its answer.
func (s *customStorage) objectPoints(query metric.Query, selector labels.Selector) ([]metric.Point, error) {
	if !s.needsZeroFill(&query) {
		return s.source.Objects(query)
	}
	u := &zeroFill{source: s.source, cluster: s.objects.cluster, workloads: s.workloads, query: query, selector: selector}
	u.findReadyPods()
	asked := query
	asked.Kind = &u.kind
	if query.Reserve != nil {
		asked.Reserve = func(points int) ([]metric.Point, error) { return u.buffer(max(points, u.live)) }
	}
	return u.complete(s.source.Objects(asked))
}

func (s *customStorage) needsZeroFill(q *metric.Query) bool {
	if s.workloads == nil || s.objects.cluster == nil || q.Resource != pods.resource.Resource {
		return false
	}
	switch q.Expression.Stat {
	case metric.NoStat, metric.Rate, metric.Count, metric.Unique:
		return s.workloads.AnyPushed(q.Namespace, q.Expression.Name)
	}
	return false
}

// seekReady finds the pods that the query is about.
func (u *zeroFill) findReadyPods() {
	if u.query.Object == custom_metrics.AllObjects {
		u.ready, u.live = u.cluster.ReadyPods(u.query.Namespace, u.selector)
		return
	}
	u.live = 1
	u.ready = func(yield func(metric.Object, metric.Workload) bool) {
		if o, of, ok := u.cluster.ReadyPod(u.query.Namespace, u.query.Object); ok {
			yield(o, of)
		}
	}
}

// roomFor is metric.Query's Room. It keeps what it hands out, for an answer that has nothing but zeros.
func (u *zeroFill) buffer(points int) (room []metric.Point, err error) {
	u.points, err = u.query.Reserve(points)
	return u.points, err
}

// complete adds the zeros to what the source answered.
func (u *zeroFill) complete(points []metric.Point, err error) ([]metric.Point, error) {
	if err != nil && !errors.Is(err, metric.ErrNotFound) || len(points) >= u.live {
		return points, err // as it is, or nobody is missing
	}
	if err != nil {
		points = u.points[:0]
	}
	have := len(points)
	zero := u.source.Zero(u.query.Expression)
	for zero.Object = range u.pods(points[:have]) {
		points = append(points, zero)
	}
	if len(points) == have {
		return points, err
	}
	slices.SortFunc(points, func(a, b metric.Point) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return points, nil
}

// pods yields the pods that read 0 because they never counted; points are of those that did, in the order of names.
func (u *zeroFill) pods(points []metric.Point) iter.Seq[metric.Object] {
	return func(yield func(metric.Object) bool) {
		var last metric.Workload
		counts := false
		for o, of := range u.ready {
			if _, there := slices.BinarySearchFunc(points, o.Name, func(p metric.Point, name string) int {
				return strings.Compare(p.Object.Name, name)
			}); there {
				continue
			}
			if of != last {
				last, counts = of, u.hasPushed(of)
			}
			if counts && !yield(o) {
				return
			}
		}
	}
}

// counts reports whether the workload has pushed what is asked for, in the kind in which the others answer.
func (u *zeroFill) hasPushed(of metric.Workload) bool {
	kind := u.workloads.PushedKind(of, u.query.Expression.Name, u.query.MatchLabels)
	if kind == metric.NoKind || u.kind != metric.NoKind && u.kind != kind {
		return false
	}
	return u.query.Expression.Stat == metric.NoStat || kind.Has(u.query.Expression.Stat)
}
