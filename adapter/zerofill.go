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

// zeroFill adds zeros to answers about pods. A ready pod without a series reads 0 once another pod
// of its workload has pushed the counter or set. Otherwise the autoscaler, which may remove the one
// pod that pushed, would read "not found" for ever and never scale again.
type zeroFill struct {
	source    Source
	cluster   Cluster
	workloads Workloads
	query     metric.Query
	selector  labels.Selector // selects pods; nil: all

	kind   metric.Kind // of the series in the answer; NoKind: none
	points []metric.Point
	ready  iter.Seq2[metric.Object, metric.Workload] // the queried pods that are ready
	live   int                                       // number of queried pods, ready or not
}

// objectPoints queries the source and adds zeros.
func (s *customStorage) objectPoints(query metric.Query, selector labels.Selector) ([]metric.Point, error) {
	if !s.needsZeroFill(&query) {
		return s.source.Objects(query)
	}
	u := &zeroFill{source: s.source, cluster: s.objects.cluster, workloads: s.workloads, query: query,
		selector: selector}
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

// findReadyPods finds the queried pods.
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

// buffer implements metric.Query's Reserve. It keeps the buffer for an answer of nothing but zeros.
func (u *zeroFill) buffer(points int) (buffer []metric.Point, err error) {
	u.points, err = u.query.Reserve(points)
	return u.points, err
}

// complete adds the zeros to the source's answer.
func (u *zeroFill) complete(points []metric.Point, err error) ([]metric.Point, error) {
	if err != nil && !errors.Is(err, metric.ErrNotFound) || len(points) >= u.live {
		return points, err // unchanged, or no pod is missing
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

// pods yields the pods that read 0; points are those of the other pods, sorted by name.
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

// hasPushed reports whether the workload has pushed the metric, in the kind of the other answers.
func (u *zeroFill) hasPushed(of metric.Workload) bool {
	kind := u.workloads.PushedKind(of, u.query.Expression.Name, u.query.MatchLabels)
	if kind == metric.NoKind || u.kind != metric.NoKind && u.kind != kind {
		return false
	}
	return u.query.Expression.Stat == metric.NoStat || kind.Has(u.query.Expression.Stat)
}
