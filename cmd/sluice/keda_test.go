package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/keda"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/metric"
)

// A trigger of pods gets one value of all of them, also of a stat that doesn't add up.
func TestTriggersOfPodsAreRolledUp(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	push := func(lines ...string) {
		for _, line := range lines {
			if code, _, errs := called(t, "push", "--statsd", p.udpAddress(), line); code != command.ExitOK {
				t.Fatal(errs)
			}
		}
	}
	const pod = "#namespace:shop,pod:web-"
	push("latency:10|ms|"+pod+"1", "latency:20|ms|"+pod+"1", "latency:90|ms|"+pod+"2", "busy:3|g|"+pod+"1", "busy:4|g|"+pod+"2")
	source := p.triggers()
	for expression, want := range map[string]float64{"latency:max:1m": 90, "latency:mean:1m": 40, "latency:count:1m": 3, "busy": 7} {
		asked, err := source.Ask(trigger.Question{Namespace: "shop", Metric: expression, Object: trigger.Pods})
		must(t, err)
		if got, err := asked.Value(); err != nil || got.Float64() != want {
			t.Errorf("%s: %v (%v), want %v", expression, got, err, want)
		}
	}
	// A trigger of a Deployment may be rolled up, so it wakes for the pods' samples.
	asked, err := source.Ask(trigger.Question{Namespace: "shop", Metric: "busy", Object: "deployments.apps/web"})
	must(t, err)
	changed := changesOf(t, source, asked)
	await := func(want bool) (came bool) {
		for range 5000 {
			if changed() == want {
				return true
			}
			time.Sleep(10 * time.Millisecond)
		}
		return false
	}
	if !await(false) {
		t.Error("the trigger never rests")
	}
	push("busy:5|g|" + pod + "1")
	if !await(true) {
		t.Error("the trigger doesn't wake")
	}
}

// A trigger's value is the sum of the label sets that its selector selects, of its namespace alone. KEDA adds up
// what it gets, so there is one value.
func TestTriggersAddUpLabelSets(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	for path, value := range map[string]string{
		"shop/external/jobs?label=queue=mail": "3", "shop/external/jobs?label=queue=print": "5.5", "billing/external/jobs": "100",
	} {
		accepted(t, p, "PUT", "/v1/namespaces/"+path, value)
	}
	value := func(q trigger.Question) (float64, error) {
		asked, err := p.triggers().Ask(q)
		if err != nil {
			return 0, err
		}
		sum, err := asked.Value()
		return sum.Float64(), err
	}
	for selector, want := range map[string]float64{"": 8.5, "queue=mail": 3, "queue in (mail,print)": 8.5} {
		if got, err := value(trigger.Question{Namespace: "shop", Metric: "jobs:last", Object: trigger.External, Selector: selector}); err != nil || got != want {
			t.Errorf("%q: %v (%v), want %v", selector, got, err, want)
		}
	}
	for name, q := range map[string]trigger.Question{
		"another namespace": {Namespace: "empty", Metric: "jobs:last", Object: trigger.External},
		"another queue":     {Namespace: "shop", Metric: "jobs:last", Object: trigger.External, Selector: "queue=sms"},
	} {
		if got, err := value(q); !errors.Is(err, metric.ErrNotFound) {
			t.Errorf("%s: %v (%v), want ErrNotFound", name, got, err)
		}
	}
}

// Who writes autoscalers and triggers in one namespace learns by them nothing of another one.
func TestAuthorsStayInTheirNamespace(t *testing.T) {
	t.Parallel()
	c := withNamespaces(map[string]string{"shop": "1", "bank": "2"})
	c.items["/apis/autoscaling/v2/horizontalpodautoscalers"] = []any{clusterObject("autoscaling/v2", "HorizontalPodAutoscaler", "web", map[string]any{
		"maxReplicas": 3, "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"metrics": []any{map[string]any{"type": "Object", "object": map[string]any{"metric": map[string]any{"name": "queue"},
			"describedObject": map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": "bank"},
			"target":          map[string]any{"type": "Value", "value": "9"}}}}})}
	p := startedIn(t, c)
	accepted(t, p, "PUT", "/v1/namespaces/bank/metrics/queue", deniedValue)
	accepted(t, p, "PUT", "/v1/namespaces/shop/metrics/queue", openValue)
	if page := awaitValue(t, "http://"+p.opsAddr.String(), "/metrics"); has(page, deniedValue) {
		t.Errorf("an autoscaler of shop shows what bank has:\n%s", page)
	}
	for _, a := range p.autoscalerDocuments(inspect.Query{Namespace: "shop"}).Items {
		if text := fmt.Sprintf("%+v", a); has(text, deniedValue) {
			t.Errorf("it is listed: %s", text)
		}
	}
	for object, want := range map[string]bool{trigger.Namespace: true, "namespaces/shop": true, "namespaces/bank": false, "Namespace/bank": false} {
		asked, err := p.triggers().Ask(trigger.Question{Namespace: "shop", Metric: "queue", Object: object})
		if err == nil {
			_, err = asked.Value()
		}
		if (err == nil) != want {
			t.Errorf("KEDA, %s: %v, want a value: %v", object, err, want)
		}
	}
}

// changesOf watches a trigger. The function that it returns looks, and reports whether the trigger changed.
func changesOf(t *testing.T, source keda.Source, asked keda.Asked) func() bool {
	t.Helper()
	told := false
	asked.Watch(func() { told = true })
	t.Cleanup(asked.Unwatch)
	read := func() {
		if _, err := asked.Value(); err != nil && !errors.Is(err, metric.ErrNotFound) {
			t.Error(err)
		}
	}
	read()
	return func() bool {
		told = false
		source.Look()
		if told {
			read()
		}
		return told
	}
}
