package client

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/document"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readings asks the metrics APIs what the controller asks.
func (g *gatherer) readings(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	g.facts.Readings = make([]explain.Reading, len(hpa.Spec.Metrics))
	g.rightsNeeded = make([]explain.Right, len(hpa.Spec.Metrics))
	for i := range hpa.Spec.Metrics {
		q, err := g.questionOf(asAsked(&hpa.Spec.Metrics[i]))
		if err != nil {
			g.unknown(g.facts.Autoscaler.Metrics[i].Name, err)
		}
		if q.path != "" {
			g.facts.Readings[i], g.rightsNeeded[i] = g.reading(q), q.right
		}
	}
	g.countPods()
}

// asAsked is a metric of an autoscaler with the name that the controller asks for.
func asAsked(m *autoscalingv2.MetricSpec) *autoscalingv2.MetricSpec {
	if m.External == nil {
		return m
	}
	external := *m.External
	external.Metric.Name = document.AskedExternal(external.Metric.Name)
	return &autoscalingv2.MetricSpec{Type: m.Type, External: &external}
}

// question is what the controller asks about a metric.
type question struct {
	path     string // empty: it is not of the APIs that Sluice serves
	resource string // group-resource of the object; empty: external
	right    explain.Right
}

func (g *gatherer) questionOf(m *autoscalingv2.MetricSpec) (question, error) {
	switch {
	case m.Pods != nil:
		if g.selector == nil {
			return question{}, errors.New("not asked, because the target's pods are unknown")
		}
		name := m.Pods.Metric.Name
		selectors := query("labelSelector", g.selector.String(), "metricLabelSelector", selectorOf(&m.Pods.Metric))
		return question{
			path:     CustomAPI + g.inNamespace() + "pods/*/" + url.PathEscape(name) + selectors,
			resource: "pods",
			right:    explain.Right{Verb: "get", Group: explain.CustomGroup, Resource: "pods/" + name},
		}, nil
	case m.External != nil:
		name := m.External.Metric.Name
		return question{
			path:  ExternalAPI + g.inNamespace() + url.PathEscape(name) + query("labelSelector", selectorOf(&m.External.Metric)),
			right: explain.Right{Verb: "list", Group: explain.ExternalGroup, Resource: name},
		}, nil
	case m.Object != nil:
		return g.questionOfObject(&m.Object.DescribedObject, &m.Object.Metric)
	}
	return question{}, nil
}

func (g *gatherer) questionOfObject(c *autoscalingv2.CrossVersionObjectReference,
	m *autoscalingv2.MetricIdentifier) (question, error) {
	selector, name := query("metricLabelSelector", selectorOf(m)), url.PathEscape(m.Name)
	if c.Kind == "Namespace" {
		return question{
			path:     CustomAPI + "/namespaces/" + url.PathEscape(c.Name) + "/metrics/" + name + selector,
			resource: "namespaces",
			right:    explain.Right{Verb: "get", Group: explain.CustomGroup, Resource: "metrics/" + m.Name},
		}, nil
	}
	version, err := schema.ParseGroupVersion(c.APIVersion)
	if err != nil {
		return question{}, err
	}
	resource, err := g.resourceOf(version, c.Kind)
	if err != nil {
		return question{}, err
	}
	if version.Group != "" {
		resource += "." + version.Group
	}
	return question{
		path:     CustomAPI + g.inNamespace() + resource + "/" + url.PathEscape(c.Name) + "/" + name + selector,
		resource: resource,
		right:    explain.Right{Verb: "get", Group: explain.CustomGroup, Resource: resource + "/" + m.Name},
	}, nil
}

// selectorOf is the selector that the controller sends; empty: none.
func selectorOf(m *autoscalingv2.MetricIdentifier) string {
	if m.Selector == nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(m.Selector)
	if err != nil {
		return "" // the API server validates selectors
	}
	return selector.String()
}

func (g *gatherer) reading(q question) explain.Reading {
	values, err := g.api.read(g.ctx, q.path)
	out := explain.Reading{Asked: true, Resource: q.resource}
	if err != nil {
		out.Fault = err.Error()
		var refused *refusal
		if errors.As(err, &refused) {
			out.Code = refused.code
		}
		if refused != nil && refused.unregistered || out.Code == http.StatusNotFound && strings.Contains(out.Fault, "page not found") {
			out.Fault = "the server could not find the requested resource" // as client-go has it
		}
		return out
	}
	for _, v := range values {
		object := strings.TrimPrefix(v.about, "pod/")
		if object == noLabels {
			object = explain.NoLabels
		}
		out.Values = append(out.Values, explain.Value{Object: object, Milli: v.milli(), Text: v.print(), Time: v.at})
	}
	if len(values) == 0 {
		out.Code, out.Fault = http.StatusNotFound, "the answer has no values"
	}
	return out
}

// countPods adds to the values of Object metrics how many pods they are rolled up from: the metrics
// APIs have no field for that. It adds nothing if the user may not read Sluice's documents.
func (g *gatherer) countPods() {
	a := &g.facts.Autoscaler
	rolled := func(i int) *explain.Value {
		if r := &g.facts.Readings[i]; a.Metrics[i].Source == inspect.SourceObject && len(r.Values) == 1 {
			return &r.Values[0]
		}
		return nil
	}
	asked := false
	for i := range g.facts.Readings {
		asked = asked || rolled(i) != nil
	}
	if !asked {
		return
	}
	for i, m := range g.metricsAtSluice() {
		if v := rolled(i); v != nil && m.Name == a.Metrics[i].Name {
			v.Pods = metric.PodCount{With: int32(m.Values), Of: int32(m.Pods)}
		}
	}
}

// metricsAtSluice are the autoscaler's metrics with what Sluice knows of them, in the same order; none: Sluice doesn't
// say, or has another version of the autoscaler.
func (g *gatherer) metricsAtSluice() []inspect.AutoscalerMetric {
	a := &g.facts.Autoscaler
	held, err := fetch[inspect.Autoscaler](g.ctx, g.api, inspectPath("autoscalers", g.namespace)+"/"+escaped(a.Name))
	if err != nil || len(held.Metrics) != len(a.Metrics) {
		return nil
	}
	return held.Metrics
}
