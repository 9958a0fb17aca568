package explain

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// A value that is rolled up says from how many pods; any other says nothing of pods.
func TestRollUpSteps(t *testing.T) {
	m := &inspect.AutoscalerMetric{Source: "Object", ObjectKind: "Deployment", ObjectName: "web", Name: "busy", TargetType: "Value", Target: "10"}
	for _, c := range []struct {
		values []Value
		want   string
	}{
		{[]Value{{Object: "web", Milli: 20000, Pods: metric.PodCount{With: 3, Of: 4}}},
			"Deployment web has no series of its own: the value is rolled up from its pods, 3 of 4 with a value"},
		{[]Value{{Object: "web", Milli: 20000}}, ""},
		{nil, ""},
	} {
		f := &Facts{Readings: []Reading{{Asked: true, Values: c.values}}, Scale: &Scale{SpecReplicas: 2, StatusReplicas: 2},
			Autoscaler: inspect.Autoscaler{MinReplicas: 1, MaxReplicas: 10, Metrics: []inspect.AutoscalerMetric{*m}}}
		steps := strings.Join(Autoscaler(f).Metrics[0].Steps, "\n")
		if c.want != "" && !strings.HasPrefix(steps, c.want) || c.want == "" && strings.Contains(steps, "rolled up") {
			t.Errorf("%q; want %q", steps, c.want)
		}
	}
}
