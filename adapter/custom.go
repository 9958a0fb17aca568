package adapter

import (
	"context"
	"fmt"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"
)

// namespaces is the resource of metrics that describe a namespace.
var namespaces = schema.GroupResource{Resource: "namespaces"}

// customStorage answers custom.metrics.k8s.io in both versions; the library converts. It replaces
// the library's storage, which answers a malformed metricLabelSelector with 500 and drops the
// resourceVersion of a single object's answer.
type customStorage struct {
	source  Source
	objects objects
	vain    *vainQueries // nil: nobody reads the log
	uses    *uses        // nil: nobody asks who asked
	rights  operandRights
}

// New implements rest.Storage.
func (s *customStorage) New() runtime.Object { return &custom_metrics.MetricValue{} }

// Destroy implements rest.Storage.
func (s *customStorage) Destroy() {}

// NewList implements the library's ListerWithOptions.
func (s *customStorage) NewList() runtime.Object { return &custom_metrics.MetricValueList{} }

// NewListOptions implements the library's ListerWithOptions.
func (s *customStorage) NewListOptions() (options runtime.Object, hasSubpath bool, subpathKey string) {
	return &custom_metrics.MetricListOptions{}, true, "metricName"
}

// List implements the library's ListerWithOptions: the metric of one object or of all objects.
func (s *customStorage) List(ctx context.Context, options *metainternalversion.ListOptions,
	extra runtime.Object) (runtime.Object, error) {
	asked, err := parseCustomRequest(ctx)
	failed := target{resource: schema.ParseGroupResource(asked.resource), name: asked.metric}
	if err != nil {
		return nil, failed.status(err)
	}
	resource, err := s.objects.find(asked.resource)
	if err != nil {
		return nil, failed.status(err)
	}
	if err := asked.checkScope(resource); err != nil {
		return nil, failed.status(err)
	}
	pick, err := s.objects.pick(resource, asked, options)
	if err != nil {
		return nil, failed.status(err)
	}
	selector, err := metricLabelSelector(extra)
	if err != nil {
		return nil, failed.status(err)
	}
	ticket := ticketOf(ctx)
	query := metric.Query{
		Resource:    resource.resource.String(),
		Namespace:   asked.namespace,
		Object:      asked.object,
		Expression:  metric.ParseExpression(asked.metric),
		MatchLabels: labelselector.Matching(selector),
		Reserve:     ticket.buffer(ctx),
		MayRead:     s.rights.of(ctx),
	}
	usePick(&query, pick)
	points, err := s.source.Objects(query)
	ticket.collected(points)
	s.vain.note(ctx, vainKey{asked.namespace, query.Resource, asked.metric}, err)
	err = failed.status(err)
	s.uses.note(ctx, useKey{asked.namespace, query.Resource, asked.metric}, err)
	if err != nil {
		return nil, err
	}
	list, err := valuelist.NewCustom(valuelist.Custom{
		Metric: asked.metric, Object: asked.object, Resource: resource.resource, Kind: resource.kind,
		Selector: shownSelector(selector),
	}, points)
	if err != nil {
		return nil, failed.status(err)
	}
	return list, nil
}

func metricLabelSelector(extra runtime.Object) (labels.Selector, error) {
	options, ok := extra.(*custom_metrics.MetricListOptions)
	if !ok {
		return nil, fmt.Errorf("options have type %T: the handler chain is broken", extra)
	}
	return labelselector.Parse("metricLabelSelector", options.MetricLabelSelector)
}

// shownSelector is the selector in the answer, if a LabelSelector can express it.
func shownSelector(selector labels.Selector) *metav1.LabelSelector {
	if selector.Empty() {
		return nil
	}
	shown, err := metav1.ParseToLabelSelector(selector.String())
	if err != nil {
		return nil // > and <
	}
	return shown
}
