package inspect

import "testing"

// An autoscaler that is held back has a fault, and so counts as broken in lists and the console. A
// missing metric is graver.
func TestFaultOfAutoscaler(t *testing.T) {
	a := Autoscaler{Metrics: []AutoscalerMetric{{Name: "busy", HeldBack: "web-2 was rejected"}, {Name: "jobs"}}}
	if got := a.Fault(); got != "metric busy is held back: web-2 was rejected" {
		t.Errorf("%q", got)
	}
	a.Metrics[1].Missing, a.Metrics[1].Why = true, "none was ever received"
	if got := a.Fault(); got != "metric jobs is missing: none was ever received" {
		t.Errorf("%q", got)
	}
	able := AutoscalerCondition{Type: "AbleToScale", Status: "False", Reason: "FailedGetScale", Message: `deployments.apps "wbe" not found`}
	if got := (&Autoscaler{Metrics: []AutoscalerMetric{{Name: "busy"}}, Conditions: []AutoscalerCondition{able}}).Fault(); got != `the target can't be scaled: deployments.apps "wbe" not found` {
		t.Errorf("a target that doesn't exist: %q", got)
	}
	if got := (&Autoscaler{Metrics: []AutoscalerMetric{{Name: "busy"}}}).Fault(); got != "" {
		t.Errorf("%q", got)
	}
}
