package adapter

import (
	"context"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/adapter/route"
	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/metrics/pkg/apis/external_metrics"
)

// externalStorage answers external.metrics.k8s.io.
type externalStorage struct {
	source   Source
	policies Policies
	vain     *vainQueries // nil: nobody reads the log
	uses     *uses        // nil: nobody asks who asked
	rights   operandRights
	routes   *route.Router // nil: nothing is routed
	// TableConvertor stays nil: answers are not tables, and the library only uses it if the scope
	// allows tables.
	rest.TableConvertor
}

// New implements rest.Storage.
func (s *externalStorage) New() runtime.Object { return &external_metrics.ExternalMetricValue{} }

// Destroy implements rest.Storage.
func (s *externalStorage) Destroy() {}

// NewList implements rest.Lister.
func (s *externalStorage) NewList() runtime.Object {
	return &external_metrics.ExternalMetricValueList{}
}

// List implements rest.Lister: the items of one metric in a namespace.
func (s *externalStorage) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object,
	error) {
	namespace, name, err := parseExternalRequest(ctx)
	failed := target{resource: schema.GroupResource{Group: external_metrics.GroupName, Resource: name}}
	if err != nil {
		return nil, failed.status(err)
	}
	var selector labels.Selector
	if options != nil {
		selector = options.LabelSelector
	}
	provider := s.routes.Find(namespace, name, selector)
	if provider == nil {
		if _, err := metric.AskedExpression(name); err != nil {
			return nil, failed.status(err)
		}
	}
	err = checkPolicies(s.policies, namespace, name, selector, readerOf(ctx))
	if err == nil && provider != nil && s.policies != nil {
		err = s.policies.Check(policy.Request{Namespace: namespace, Expression: metric.Expression{Name: name},
			Selector: requirementsOf(selector), Reader: readerOf(ctx), Forwarded: true})
	}
	if err := failed.status(err); err != nil {
		s.uses.note(ctx, useKey{namespace, "", name}, err)
		return nil, err
	}
	if provider != nil {
		return s.ask(ctx, provider, namespace, name, selector)
	}
	ticket := ticketOf(ctx)
	points, err := s.source.External(metric.Query{
		Namespace:   namespace,
		Expression:  metric.ParseExpression(name),
		MatchLabels: labelselector.Matching(selector),
		Reserve:     ticket.buffer(ctx),
		MayRead:     bothMayRead(s.rights.of(ctx), operandPolicies(s.policies, namespace, selector, readerOf(ctx))),
	})
	ticket.collected(points)
	s.vain.note(ctx, vainKey{namespace, "", name}, err)
	err = failed.status(err)
	s.uses.note(ctx, useKey{namespace, "", name}, err)
	if err != nil {
		return nil, err
	}
	list, err := valuelist.NewExternal(namespace, name, points)
	if err != nil {
		return nil, failed.status(err)
	}
	return list, nil
}

// ask gets the items from another provider.
func (s *externalStorage) ask(ctx context.Context, provider *route.Provider, namespace, name string,
	selector labels.Selector) (runtime.Object, error) {
	question := route.Question{Namespace: namespace, Name: escape(name), Forwarded: isForwarded(ctx), Share: shareOf(ctx)}
	if selector != nil {
		question.Selector = selector.String()
	}
	question.Reader, _ = request.UserFrom(ctx)
	list, written, err := provider.Ask(ctx, question)
	ticketOf(ctx).ended = written
	s.uses.note(ctx, useKey{namespace, "", name}, err)
	if err != nil {
		return nil, err
	}
	return list, nil
}
