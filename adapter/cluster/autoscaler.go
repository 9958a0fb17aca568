package cluster

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/document"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const autoscalerResource = "horizontalpodautoscalers.autoscaling"

// onObjects stands for any resource except pods in a namedMetric.
const onObjects = "*"

// namedMetric is a metric that an autoscaler names: of pods, of another object, or (empty resource)
// an external one.
type namedMetric struct{ resource, name string }

// autoscaler is the part of a HorizontalPodAutoscaler that is kept.
type autoscaler struct {
	namespace, name string
	metrics         []namedMetric // without duplicates
	document        *inspect.Autoscaler
}

func newAutoscaler(from any) (*autoscaler, bool) {
	of, ok := from.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil, false
	}
	short := &autoscaler{namespace: of.Namespace, name: of.Name, document: document.Of(of)}
	for i := range of.Spec.Metrics {
		for _, one := range metricsNamedBy(of.Namespace, &of.Spec.Metrics[i]) {
			if !slices.Contains(short.metrics, one) {
				short.metrics = append(short.metrics, one)
			}
		}
	}
	return short, true
}

// mayHavePods reports whether the metrics of a kind may be rolled up from pods: those of
// Kubernetes' workloads and Services, and of any custom resource.
func mayHavePods(of *autoscalingv2.CrossVersionObjectReference) bool {
	switch of.Kind {
	case "Deployment", replicaSetKind, "StatefulSet", "DaemonSet", "Job", "ReplicationController", "Service":
		return true
	}
	group := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).Group
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// metricsNamedBy reads a metric of an autoscaler's spec. A metric that may be rolled up from pods
// names theirs, too. Resource and container metrics are not Sluice's.
func metricsNamedBy(namespace string, spec *autoscalingv2.MetricSpec) []namedMetric {
	switch {
	case spec.Pods != nil:
		return []namedMetric{{podResource, bareName(spec.Pods.Metric.Name)}}
	case spec.External != nil:
		return []namedMetric{{"", bareName(spec.External.Metric.Name)}}
	case spec.Object != nil:
		name := bareName(spec.Object.Metric.Name)
		switch of := spec.Object.DescribedObject; {
		case of.Kind == "Pod":
			return []namedMetric{{podResource, name}}
		case of.Kind == "Namespace" && of.Name != namespace:
			return nil // an autoscaler has no effect on another namespace's limits
		case mayHavePods(&of):
			return []namedMetric{{onObjects, name}, {podResource, name}}
		}
		return []namedMetric{{onObjects, name}}
	}
	return nil
}

// bareName removes stat and window from a metric's name in a spec, where "\|" may stand for "/"
// (external metrics API proposal).
func bareName(name string) string {
	return metric.ParseExpression(strings.ReplaceAll(name, `\|`, "/")).Name
}
