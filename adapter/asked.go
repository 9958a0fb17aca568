package adapter

import (
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/metric"
)

// Asked is a question that is asked again and again. One goroutine uses it: the one of its Watches.
type Asked struct {
	read    func() (metric.Number, error)
	series  func() (metric.Query, error) // whose series it reads
	watches *answer.Watches
	watch   *answer.Watch // nil: not watched
}

// Value is the sum of the values of this moment: an autoscaler adds up the API's answer.
func (a *Asked) Value() (metric.Number, error) {
	if a.watch != nil {
		a.watch.Follow()
	}
	return a.read()
}

// Watch has Watches.Look call a function when the value may have changed, until Unwatch.
func (a *Asked) Watch(changed func()) { a.watch = a.watches.Watch(a.series, changed) }

// Unwatch ends Watch.
func (a *Asked) Unwatch() {
	a.watch.End()
	a.watch = nil
}

// Ask prepares a question. The error is metric.ErrInvalidQuery, or metric.ErrNotFound for a resource that is
// unknown.
func (r *QuestionReader) Ask(q Question, among *answer.Watches) (*Asked, error) {
	_, err := r.Query(q)
	return &Asked{
		watches: among,
		read: func() (sum metric.Number, err error) {
			query, err := r.Query(q)
			if err != nil {
				return sum, err
			}
			points, err := r.Points(query)
			for i := range points {
				sum = sum.Plus(points[i].Value)
			}
			return sum, err
		},
		// All objects, also where a selector of objects selects some: a watch may wake for a pod that it
		// leaves out, and never misses one that was labelled since. So do the pods of a roll-up.
		series: func() (metric.Query, error) {
			query, err := r.Query(q)
			query.MatchObject, query.ListObjects, query.RemovedObjects = nil, nil, nil
			return query, err
		},
	}, err
}

// Ask prepares the reading of an autoscaler's metric. The error is for people to read. It has no targets:
// the pods of a target are of no use while it has none.
func (r *AutoscalerReader) Ask(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, among *answer.Watches) (*Asked, error) {
	_, err := r.Series(a, m)
	return &Asked{
		watches: among,
		read: func() (metric.Number, error) {
			reading, err := r.Of(a, m, nil)
			return reading.Sum, err
		},
		series: func() (metric.Query, error) { return r.Series(a, m) },
	}, err
}
