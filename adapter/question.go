package adapter

import (
	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/metric"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
)

// Question selects a metric's series as people write it, outside of a request.
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
	query := metric.Query{Namespace: q.Namespace, Expression: metric.ParseExpression(unescape(q.Metric))}
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
		query.RollUp = &metric.RollUp{Object: metric.Object{Resource: query.Resource, Namespace: query.Namespace, Name: q.Object}}
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
