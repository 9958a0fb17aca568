package cluster

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// onObjects stands in an asked for any resource but pods.
const onObjects = "*"

// asked is a metric that an autoscaler names: of pods, of another object, or (no resource) an external one.
type namedMetric struct{ resource, name string }

// autoscaler is what is kept of a HorizontalPodAutoscaler.
type autoscaler struct {
	namespace, name string
	metrics         []namedMetric // each once
}

func newAutoscaler(from any) (*autoscaler, bool) {
	of, ok := from.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil, false
	}
	short := &autoscaler{namespace: of.Namespace, name: of.Name}
	for i := range of.Spec.Metrics {
		if one, ok := metricNamedBy(of.Namespace, &of.Spec.Metrics[i]); ok && !slices.Contains(short.metrics, one) {
			short.metrics = append(short.metrics, one)
		}
	}
	return short, true
}

// askedBy reads a metric of an autoscaler's spec. Metrics of containers and of the like are none of ours.
func metricNamedBy(namespace string, spec *autoscalingv2.MetricSpec) (namedMetric, bool) {
	switch {
	case spec.Pods != nil:
		return namedMetric{podResource, bareName(spec.Pods.Metric.Name)}, true
	case spec.External != nil:
		return namedMetric{"", bareName(spec.External.Metric.Name)}, true
	case spec.Object != nil:
		switch of := spec.Object.DescribedObject; of.Kind {
		case "Pod":
			return namedMetric{podResource, bareName(spec.Object.Metric.Name)}, true
		case "Namespace":
			if of.Name != namespace {
				return namedMetric{}, false // an autoscaler gives nothing precedence in another namespace
			}
		}
		return namedMetric{onObjects, bareName(spec.Object.Metric.Name)}, true
	}
	return namedMetric{}, false
}

// bareName takes stat and window off a name as a spec has it, where "\|" may stand for "/" (external metrics API
// proposal).
func bareName(name string) string { return metric.ParseAsked(strings.ReplaceAll(name, `\|`, "/")).Name }
