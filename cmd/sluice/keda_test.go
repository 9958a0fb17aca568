package main

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/keda"
	"github.com/sluice-metrics/sluice/metric"
)

// A trigger of pods gets one value of all of them, also of a stat that doesn't add up.
func TestTriggersOfPodsAreRolledUp(t *testing.T) {
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
	for expression, want := range map[string]float64{"latency:max": 90, "latency": 40, "latency:count": 3, "busy": 7} {
		asked, err := source.Ask(keda.Question{Namespace: "shop", Metric: expression, Object: keda.Pods})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := asked.Value(); err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", expression, got, err, want)
		}
	}
	// A trigger of a Deployment may be rolled up, so it wakes for the pods' samples.
	asked, err := source.Ask(keda.Question{Namespace: "shop", Metric: "busy", Object: "deployments.apps/web"})
	if err != nil {
		t.Fatal(err)
	}
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
