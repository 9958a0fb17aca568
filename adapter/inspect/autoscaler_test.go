package inspect

import (
	"testing"
	"time"
)

// An autoscaler that is held back has a fault, and so counts as broken in lists and the console. All
// faults are told, a missing metric first.
func TestFaultOfAutoscaler(t *testing.T) {
	a := Autoscaler{Metrics: []AutoscalerMetric{{Name: "busy", HeldBack: "web-2 was rejected"}, {Name: "jobs"}}}
	if got := a.Fault(); got != "metric busy is held back: web-2 was rejected" {
		t.Errorf("%q", got)
	}
	a.Metrics[1].Missing, a.Metrics[1].Why = true, "none was ever received"
	if got := a.Fault(); got != "metric jobs is missing: none was ever received; metric busy is held back: web-2 was rejected" {
		t.Errorf("%q", got)
	}
	if got := (&Autoscaler{Unread: "the spec has 70000 bytes"}).Fault(); got != "its metrics are not read: the spec has 70000 bytes" {
		t.Errorf("an autoscaler that is too large: %q", got)
	}
	able := AutoscalerCondition{Type: "AbleToScale", Status: "False", Reason: "FailedGetScale", Message: `deployments.apps "wbe" not found`}
	if got := (&Autoscaler{Metrics: []AutoscalerMetric{{Name: "busy"}}, Conditions: []AutoscalerCondition{able}}).Fault(); got != `the target can't be scaled: deployments.apps "wbe" not found` {
		t.Errorf("a target that doesn't exist: %q", got)
	}
	if got := (&Autoscaler{Metrics: []AutoscalerMetric{{Name: "busy"}}}).Fault(); got != "" {
		t.Errorf("%q", got)
	}
}

// Lists show the values of metrics beside their targets, and of roll-ups the pods that have one.
func TestMetricsOfAutoscalersInLists(t *testing.T) {
	for want, m := range map[string]AutoscalerMetric{
		"http_requests 12/10":     {Source: SourcePods, Name: "http_requests", Value: "12", Target: "10", Values: 2, Pods: 2},
		"jobs missing/5":          {Source: SourceExternal, Name: "jobs", Missing: true, Target: "5"},
		"cpu 40/-":                {Source: "Resource", Name: "cpu", Current: "40"},
		"busy 6/10 (2 of 3 pods)": {Source: SourceObject, Name: "busy", Value: "6", Target: "10", Values: 2, Pods: 3},
		"depth 6/10":              {Source: SourceObject, Name: "depth", Value: "6", Target: "10", Values: 1},
	} {
		a := Autoscaler{Metrics: []AutoscalerMetric{m}}
		if got := a.Cells(time.Now())[2]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
