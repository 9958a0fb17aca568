package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/wake"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// A fault of one change delays no other one; an error that is none of the sorts is the API server's as a whole.
func TestFaultsOfOneChange(t *testing.T) {
	for err, want := range map[error]wake.Outcome{
		fmt.Errorf("%w: a webhook", cluster.ErrFails): wake.Failed, cluster.ErrRefused: wake.Refused, io.EOF: wake.Silent,
	} {
		if outcome, _ := outcomeOf(err); outcome != want {
			t.Errorf("%v: %s, want %s", err, outcome, want)
		}
		if outcome, _ := nudgeOutcome(err); outcome != want {
			t.Errorf("%v, of a nudge: %s, want %s", err, outcome, want)
		}
	}
}

// A metric that a provider owns is its, whatever is pushed to Sluice under that name: the autoscaler's controller reads
// the provider's value, so a push neither wakes nor nudges.
func TestMetricsOfProvidersNeitherWakeNorNudge(t *testing.T) {
	t.Parallel()
	certificates := started(t, t.TempDir()).cfg.store.Dir
	p := startedIn(t, newFakeCluster(), "--api-routes-file", routesFile(t, certificates), "--wake", "--instant")
	for _, name := range []string{"jobs", "datadogmetric@jobs"} {
		accepted(t, p, http.MethodPut, "/v1/namespaces/shop/external/"+name, "5")
	}
	zero := zeroSource{p.watches(), p.autoscalerReader(), p.answeredElsewhere}
	instant := nudgeSource{p: p, reader: p.autoscalerReader(), watches: p.watches()}
	for name, served := range map[string]bool{"jobs": true, "datadogmetric@jobs": false} {
		a := &inspect.Autoscaler{Namespace: "shop", Name: "web", TargetKind: "Deployment", TargetName: "web", MinReplicas: 1,
			MaxReplicas: 10, CurrentReplicas: 1, DesiredReplicas: 1, ObservedGeneration: 1, Metrics: []inspect.AutoscalerMetric{
				{Source: inspect.SourceExternal, Name: name, TargetType: "AverageValue", Target: "1", Current: "1"}}}
		asked, err := zero.Ask(a, &a.Metrics[0])
		if served != (err == nil) || err != nil && !strings.Contains(err.Error(), "the provider keda answers this metric") {
			t.Errorf("%s at zero: %v", name, err)
		}
		if err == nil {
			if value, err := asked.Value(); err != nil || value.Float64() != 5 {
				t.Errorf("%s at zero: %v (%v), want 5", name, value, err)
			}
		}
		predicted := instant.predict(a, &explain.Memory{})
		if predicted.Unknown != "" || predicted.Replicas != map[bool]int32{true: 5, false: 1}[served] {
			t.Errorf("%s: predicted %+v", name, predicted)
		}
	}
}

// Another server answers a group that is not registered for Sluice, so no controller gets a value of Sluice: none is published,
// and a push neither wakes nor nudges.
func TestUnregisteredGroupsAreReadForNoAutoscaler(t *testing.T) {
	t.Parallel()
	external := map[string]any{"type": "External", "external": map[string]any{"metric": map[string]any{"name": "jobs"},
		"target": map[string]any{"type": "AverageValue", "averageValue": "1"}}}
	object := map[string]any{"type": "Object", "object": map[string]any{"metric": map[string]any{"name": "queue"},
		"describedObject": map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": "shop"},
		"target":          map[string]any{"type": "Value", "value": "1"}}}
	for group, of := range map[string]struct {
		name, push, otherPush string
		metric                inspect.AutoscalerMetric
	}{
		explain.ExternalGroup: {"jobs", "/v1/namespaces/shop/external/jobs", "/v1/namespaces/shop/metrics/queue",
			inspect.AutoscalerMetric{Source: inspect.SourceExternal, Name: "jobs", TargetType: "AverageValue", Target: "1", Current: "1"}},
		explain.CustomGroup: {"queue", "/v1/namespaces/shop/metrics/queue", "/v1/namespaces/shop/external/jobs",
			inspect.AutoscalerMetric{Source: "Object", Name: "queue", ObjectAPIVersion: "v1", ObjectKind: "Namespace", ObjectName: "shop",
				TargetType: "Value", Target: "1", Current: "1"}},
	} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			c := withNamespaces(map[string]string{"shop": "1"})
			c.items["/apis/autoscaling/v2/horizontalpodautoscalers"] = []any{clusterObject("autoscaling/v2", "HorizontalPodAutoscaler", "web",
				map[string]any{"maxReplicas": 9, "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
					"metrics": []any{external, object}})}
			p := startedIn(t, c, "--api-unregistered", group, "--wake", "--instant")
			accepted(t, p, http.MethodPut, of.push, deniedValue)
			accepted(t, p, http.MethodPut, of.otherPush, openValue)
			if page := awaitValue(t, "http://"+p.opsAddr.String(), "/metrics"); has(page, deniedValue) {
				t.Errorf("a value of %s is published", group)
			}
			want := "another server answers " + group
			for _, m := range p.autoscalerDocuments(inspect.Query{Namespace: "shop"}).Items[0].Metrics {
				if registered := m.Name != of.name; m.Asked != registered || (m.Value == "") == registered || strings.Contains(m.Why, want) == registered {
					t.Errorf("%s %s: asked %v, value %q, %q", m.Source, m.Name, m.Asked, m.Value, m.Why)
				}
			}
			a := &inspect.Autoscaler{Namespace: "shop", Name: "web", TargetKind: "Deployment", TargetName: "web", MinReplicas: 1, MaxReplicas: 10,
				CurrentReplicas: 1, DesiredReplicas: 1, ObservedGeneration: 1, Metrics: []inspect.AutoscalerMetric{of.metric}}
			zero := zeroSource{p.watches(), p.autoscalerReader(), p.answeredElsewhere}
			if _, err := zero.Ask(a, &a.Metrics[0]); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("at zero: %v", err)
			}
			instant := nudgeSource{p: p, reader: p.autoscalerReader(), watches: p.watches()}
			if predicted := instant.predict(a, &explain.Memory{}); predicted.Unknown != "" || predicted.Replicas != 1 {
				t.Errorf("predicted %+v", predicted)
			}
		})
	}
}
