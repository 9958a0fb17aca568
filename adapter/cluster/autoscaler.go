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
type asked struct{ resource, name string }

// autoscaler is what is kept of a HorizontalPodAutoscaler.
type autoscaler struct {
	namespace, name string
	asks            []asked // each once
}

func newAutoscaler(from any) (*autoscaler, bool) {
	of, ok := from.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil, false
	}
	short := &autoscaler{namespace: of.Namespace, name: of.Name}
	for i := range of.Spec.Metrics {
		if one, ok := askedBy(of.Namespace, &of.Spec.Metrics[i]); ok && !slices.Contains(short.asks, one) {
			short.asks = append(short.asks, one)
		}
	}
	return short, true
}

// askedBy reads a metric of an autoscaler's spec. Metrics of containers and of the like are none of ours.
func askedBy(namespace string, spec *autoscalingv2.MetricSpec) (asked, bool) {
	switch {
	case spec.Pods != nil:
		return asked{podResource, bareName(spec.Pods.Metric.Name)}, true
	case spec.External != nil:
		return asked{"", bareName(spec.External.Metric.Name)}, true
	case spec.Object != nil:
		switch of := spec.Object.DescribedObject; of.Kind {
		case "Pod":
			return asked{podResource, bareName(spec.Object.Metric.Name)}, true
		case "Namespace":
			if of.Name != namespace {
				return asked{}, false // an autoscaler gives nothing precedence in another namespace
			}
		}
		return asked{onObjects, bareName(spec.Object.Metric.Name)}, true
	}
	return asked{}, false
}

// bareName takes stat and window off a name as a spec has it, where "\|" may stand for "/" (external metrics API
// proposal).
func bareName(name string) string {
	return metric.ParseExpression(strings.ReplaceAll(name, `\|`, "/")).Name
}
