package rollup

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// zeroFill adds zeros to answers about pods. A ready pod without a series reads 0 once another pod
// of its workload has pushed the counter or set. Otherwise the autoscaler, which may remove the one
// pod that pushed, would read "not found" for ever and never scale again. A pod whose page is read for the metric
// reads nothing instead: the page says 0 itself.
type zeroFill struct {
	workloads Workloads
	announces func(pod metric.Object, name string) bool // nil: none does
	query     metric.Query

	kind     metric.Kind // of the series in the answer; NoKind: none
	zeroKind metric.Kind // of a pod that reads 0; NoKind: none
	points   []metric.Point
	ready    iter.Seq2[metric.Object, metric.Workload] // the queried pods that are ready
	live     int                                       // number of queried pods, ready or not
}

// needsZeros reports whether pods without a series may read 0.
func (r *Reader) needsZeros(q *metric.Query) bool {
	return q.Resource == podResource && q.RollUp == nil && r.zerosOf(q)
}

// zerosOf reports whether pods of a query's namespace that have no series may count as 0.
func (r *Reader) zerosOf(q *metric.Query) bool {
	if r.parts.Workloads == nil {
		return false
	}
	switch q.Expression.Stat {
	case metric.NoStat, metric.Rate, metric.Count, metric.Unique:
		return r.parts.Workloads.AnyPushed(q.Namespace, q.Expression.Name)
	}
	return false
}

// withZeros answers a query for pods and adds zeros.
func (r *Reader) withZeros(from Snapshot, q metric.Query) ([]metric.Point, error) {
	u := &zeroFill{workloads: r.parts.Workloads, announces: r.parts.Announces, query: q}
	u.ready, u.live = r.readyPods(&q)
	asked := q
	asked.Kind = &u.kind
	if q.Reserve != nil {
		asked.Reserve = func(points int) ([]metric.Point, error) { return u.buffer(max(points, u.live)) }
	}
	points, err := from.Objects(asked)
	if q.Kind != nil && u.kind != metric.NoKind {
		*q.Kind = u.kind
	}
	return u.complete(from, points, err)
}

// readyPods returns the ready pods that a query selects, and the number of all that it selects.
func (r *Reader) readyPods(q *metric.Query) (ready iter.Seq2[metric.Object, metric.Workload], live int) {
	switch {
	case q.Object != metric.AllObjects:
		return func(yield func(metric.Object, metric.Workload) bool) {
			if o, workload, ok := r.parts.Cluster.ReadyPod(q.Namespace, q.Object); ok {
				yield(o, workload)
			}
		}, 1
	case q.ReadyPods != nil:
		return q.ReadyPods()
	}
	return r.parts.Cluster.ReadyPods(q.Namespace)
}

// buffer implements metric.Query's Reserve. It keeps the buffer for an answer of nothing but zeros.
func (u *zeroFill) buffer(points int) (buffer []metric.Point, err error) {
	u.points, err = u.query.Reserve(points)
	return u.points, err
}

// complete adds the zeros to the source's answer.
func (u *zeroFill) complete(from Snapshot, points []metric.Point, err error) ([]metric.Point, error) {
	if err != nil && !errors.Is(err, metric.ErrNotFound) || len(points) >= u.live {
		return points, err // unchanged, or no pod is missing
	}
	if err != nil {
		points = u.points[:0]
	}
	have := len(points)
	zero := from.Zero(u.query.Expression)
	for zero.Object = range u.pods(hasPoint(points[:have])) {
		points = append(points, zero)
	}
	if len(points) == have {
		return points, err
	}
	slices.SortFunc(points, func(a, b metric.Point) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return points, nil
}

// hasPoint reports whether a pod has one of the points, which are sorted by name.
func hasPoint(points []metric.Point) func(name string) bool {
	return func(name string) bool {
		_, has := slices.BinarySearchFunc(points, name, func(p metric.Point, name string) int {
			return strings.Compare(p.Object.Name, name)
		})
		return has
	}
}

// pods yields the pods that read 0; has reports whether a pod has a value.
func (u *zeroFill) pods(has func(name string) bool) iter.Seq[metric.Object] {
	return func(yield func(metric.Object) bool) {
		var last metric.Workload
		counts := false
		for o, workload := range u.ready {
			if has(o.Name) || u.announces != nil && u.announces(o, u.query.Expression.Name) {
				continue
			}
			if workload != last {
				last, counts = workload, u.hasPushed(workload)
			}
			if counts && !yield(o) {
				return
			}
		}
	}
}

// hasPushed reports whether the workload has pushed the metric, in the kind of the other answers.
func (u *zeroFill) hasPushed(workload metric.Workload) bool {
	kind := u.workloads.PushedKind(u.query.Namespace, workload, u.query.Expression.Name,
		u.query.MatchLabels)
	if kind == metric.NoKind || u.kind != metric.NoKind && u.kind != kind {
		return false
	}
	if u.query.Expression.Stat != metric.NoStat && !kind.Has(u.query.Expression.Stat) {
		return false
	}
	u.zeroKind = kind
	return true
}
