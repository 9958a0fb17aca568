package adapter

import (
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/metric"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
)

// Question selects a metric's series as people write it, outside of a request. It stays in its namespace: of objects outside of
// namespaces it may ask for that Namespace alone.
type Question struct {
	Namespace string
	Metric    string // name[:stat][:window]
	// Resource in any spelling; empty: an external metric. Object is its name; metric.AllObjects: all.
	Resource, Object string
	ObjectSelector   string // of the objects' own labels, where Object is metric.AllObjects; empty: all
	Selector         string // of the metric's label sets; empty: all
	Reader           metric.Reader
	// RollUp makes all selected objects answer as one.
	RollUp bool
}

// QuestionReader answers questions as the APIs do: with the same queries, without HTTP. Any
// goroutine may use it.
type QuestionReader struct {
	storage  customStorage
	policies Policies
}

// NewQuestionReader needs Parts.Source, Cluster and Policies.
func NewQuestionReader(parts Parts) *QuestionReader {
	return &QuestionReader{customStorage{source: parts.Source, objects: objectsOf(parts.Cluster)}, parts.Policies}
}

// Query is the query of a question, if policies allow it to be asked. Its filters are those of this moment.
func (r *QuestionReader) Query(q Question) (metric.Query, error) {
	expression, err := metric.AskedExpression(unescape(q.Metric))
	query := metric.Query{Namespace: q.Namespace, Expression: expression}
	if err != nil {
		return query, err
	}
	selector, err := labelselector.Parse("selector", q.Selector)
	if err != nil {
		return query, err
	}
	query.MatchLabels = labelselector.Matching(selector)
	if q.Resource == "" {
		query.MayRead = operandPolicies(r.policies, q.Namespace, selector, q.Reader)
		return query, checkPolicies(r.policies, q.Namespace, unescape(q.Metric), selector, q.Reader)
	}
	kind, err := r.storage.objects.find(q.Resource)
	if err != nil {
		return query, err
	}
	if err := kind.checkWithin(q.Namespace, q.Object); err != nil {
		return query, err
	}
	if query.Resource, query.Object = kind.resource.String(), q.Object; !kind.namespaced {
		query.Namespace = ""
	}
	options := &metainternalversion.ListOptions{}
	if options.LabelSelector, err = labelselector.Parse("selector of objects", q.ObjectSelector); err != nil {
		return query, err
	}
	pick, err := r.storage.objects.pick(kind, customRequest{namespace: query.Namespace, object: q.Object}, options)
	usePick(&query, pick)
	if q.RollUp {
		query.RollUp = &metric.RollUp{Object: metric.Object{Resource: query.Resource, Namespace: query.Namespace,
			Name: q.Object}}
	}
	return query, err
}

// Points answers a query.
func (r *QuestionReader) Points(query metric.Query) ([]metric.Point, error) {
	if query.Resource == "" {
		return r.storage.source.External(query)
	}
	return r.storage.source.Objects(query)
}

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
			if err != nil {
				return sum, err
			}
			if _, err := valuelist.Quantity(sum); err != nil { // KEDA computes with thousandths in an int64, as autoscalers do
				return sum, metric.Unknownf("%v", err)
			}
			return sum, nil
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
func (r *AutoscalerReader) Ask(a *inspect.Autoscaler, m *inspect.AutoscalerMetric,
	among *answer.Watches) (*Asked, error) {
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
