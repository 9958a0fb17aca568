package inspect

import (
	"strings"
	"testing"
)

func zeroAutoscaler() *Autoscaler {
	return &Autoscaler{
		Wake: &Wake{Annotation: "true"}, MaxReplicas: 5,
		Metrics: []AutoscalerMetric{{Source: "Resource", Name: "cpu"}, {Source: "External", Name: "jobs"}},
		Conditions: []AutoscalerCondition{
			{Type: "ScalingActive", Status: "True"}, {Type: "ScaledToZero", Status: "True", Reason: "ScaledToZero"},
		},
	}
}

func TestWakeRefusals(t *testing.T) {
	if why := zeroAutoscaler().WakeRefusal(); why != "" {
		t.Fatal(why)
	}
	for fragment, change := range map[string]func(*Autoscaler){
		"no annotation":                        func(a *Autoscaler) { a.Wake = nil },
		`is "yes"; must be "true"`:             func(a *Autoscaler) { a.Wake.Annotation = "yes" },
		"KEDA":                                 func(a *Autoscaler) { a.ScaledObject = "worker" },
		"its metrics are not read: too large":  func(a *Autoscaler) { a.Unread, a.Metrics = "too large", nil },
		"minReplicas is 1; must be 0":          func(a *Autoscaler) { a.MinReplicas = 1 },
		"selectPolicy is Disabled":             func(a *Autoscaler) { a.ScaleUp = &ScalingRules{SelectPolicy: "Disabled"} },
		"no metric of type External or Object": func(a *Autoscaler) { a.Metrics = a.Metrics[:1] },
	} {
		a := zeroAutoscaler()
		change(a)
		if why := a.WakeRefusal(); !strings.Contains(why, fragment) {
			t.Errorf("%q, want %q in it", why, fragment)
		}
	}
}

func TestScaledToZero(t *testing.T) {
	for _, before := range []int32{0, 1} {
		a := zeroAutoscaler()
		if a.CurrentReplicas = before; !a.ScaledToZero() {
			t.Fatalf("not at zero after the sync at %d replicas", before)
		}
	}
	for name, change := range map[string]func(*Autoscaler){
		"wants replicas":       func(a *Autoscaler) { a.DesiredReplicas = 1 },
		"no condition":         func(a *Autoscaler) { a.Conditions = a.Conditions[:1] },
		"somebody else's zero": func(a *Autoscaler) { a.Conditions[1].Status = "False" },
		"a paused autoscaler": func(a *Autoscaler) {
			a.Conditions[0] = AutoscalerCondition{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled"}
		},
	} {
		a := zeroAutoscaler()
		change(a)
		if a.ScaledToZero() {
			t.Errorf("%s: at zero", name)
		}
	}
}
