// Package document makes documents of autoscalers, for lists, explanations and the console.
package document

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of a document. The API server bounds a whole object only, by 1.5 MiB.
const (
	maxDocumentMetrics    = 100
	maxDocumentConditions = 16
	MaxPolicies           = 16  // of one direction
	maxWakeAnnotation     = 32  // bytes; "true" is the only one that does anything
	maxOwnerText          = 253 // bytes, of an object's name
)

// Of copies the parts of an autoscaler that lists, explanations and the console
// show. The document is never changed: an update makes another.
func Of(h *autoscalingv2.HorizontalPodAutoscaler) *inspect.Autoscaler {
	spec, status := &h.Spec, &h.Status
	d := &inspect.Autoscaler{
		Namespace: h.Namespace, Name: h.Name, UID: string(h.UID), Created: h.CreationTimestamp.UTC(),
		TargetAPIVersion: common(spec.ScaleTargetRef.APIVersion), TargetKind: common(spec.ScaleTargetRef.Kind),
		TargetName: spec.ScaleTargetRef.Name, ScaledObject: scaledObjectOf(h),
		MinReplicas: 1, MaxReplicas: spec.MaxReplicas,
		CurrentReplicas: status.CurrentReplicas, DesiredReplicas: status.DesiredReplicas,
		Generation: h.Generation,
	}
	if status.ObservedGeneration != nil {
		d.ObservedGeneration = *status.ObservedGeneration
	}
	if spec.MinReplicas != nil {
		d.MinReplicas = *spec.MinReplicas
	}
	if status.LastScaleTime != nil {
		d.LastScaleTime = status.LastScaleTime.UTC()
	}
	if n := min(len(spec.Metrics), maxDocumentMetrics); n > 0 {
		d.Metrics = make([]inspect.AutoscalerMetric, n)
	}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		var target autoscalingv2.MetricTarget
		*m, target = metricDocument(&spec.Metrics[i])
		if m.ObjectKind == "Namespace" && !strings.Contains(m.ObjectAPIVersion, "/") { // the controller takes any for the autoscaler's own
			m.ObjectName = h.Namespace
		}
		m.TargetType, m.Target = common(string(target.Type)), targetQuantity(&target)
		m.Current = currentQuantity(status.CurrentMetrics, i, m)
	}
	d.Conditions = conditionDocuments(status.Conditions)
	if spec.Behavior != nil {
		d.ScaleUp, d.ScaleDown = rulesDocument(spec.Behavior.ScaleUp), rulesDocument(spec.Behavior.ScaleDown)
	}
	if value, is := h.Annotations[inspect.WakeAnnotation]; is {
		d.Wake = &inspect.Wake{Annotation: metric.Truncate(common(value), maxWakeAnnotation)}
	}
	if value, is := h.Annotations[inspect.InstantAnnotation]; is {
		d.Instant = &inspect.Instant{Annotation: metric.Truncate(common(value), maxWakeAnnotation)}
	}
	d.Mark = markOf(h)
	return d
}

// scaledObjectOf returns the name of the ScaledObject of KEDA that controls an autoscaler.
func scaledObjectOf(h *autoscalingv2.HorizontalPodAutoscaler) string {
	if owner := metav1.GetControllerOfNoCopy(h); owner != nil && owner.Kind == "ScaledObject" && !TooLong(owner) {
		return owner.Name
	}
	return ""
}

// TooLong reports whether a reference to an owner is longer than any object's. The API server checks only that its texts
// are not empty, so each may have a megabyte.
func TooLong(owner *metav1.OwnerReference) bool {
	return max(len(owner.APIVersion), len(owner.Kind), len(owner.Name), len(owner.UID)) > maxOwnerText
}

// metricDocument converts a metric of a spec, without the quantities of its target.
func metricDocument(spec *autoscalingv2.MetricSpec) (m inspect.AutoscalerMetric, target autoscalingv2.MetricTarget) {
	m.Source = common(string(spec.Type))
	switch {
	case spec.Pods != nil:
		m.Name, m.Selector, target = spec.Pods.Metric.Name, selectorText(spec.Pods.Metric.Selector), spec.Pods.Target
	case spec.External != nil:
		m.Name, m.Selector, target = AskedExternal(spec.External.Metric.Name), selectorText(spec.External.Metric.Selector),
			spec.External.Target
	case spec.Object != nil:
		on := spec.Object.DescribedObject
		m.ObjectAPIVersion, m.ObjectKind, m.ObjectName = common(on.APIVersion), common(on.Kind), on.Name
		m.Name, m.Selector, target = spec.Object.Metric.Name, selectorText(spec.Object.Metric.Selector), spec.Object.Target
	case spec.Resource != nil:
		m.Name, target = common(string(spec.Resource.Name)), spec.Resource.Target
	case spec.ContainerResource != nil:
		m.Name, m.Container = common(string(spec.ContainerResource.Name)), spec.ContainerResource.Container
		target = spec.ContainerResource.Target
	}
	return m, target
}

// AskedExternal is the name by which the controller of autoscalers asks for an external metric: its client writes it in
// lower case, as the resource of a URL. Names of other metrics are asked for as they are.
//
// Source: k8s.io/client-go/rest, Request.URL; k8s.io/metrics/pkg/client/external_metrics
func AskedExternal(name string) string { return strings.ToLower(name) }

// selectorText prints a selector as kubectl does; empty: all series.
func selectorText(labelSelector *metav1.LabelSelector) string {
	if labelSelector == nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(labelSelector)
	if err != nil {
		return metav1.FormatLabelSelector(labelSelector) // "<error>"
	}
	return selector.String()
}

func targetQuantity(metricTarget *autoscalingv2.MetricTarget) string {
	switch {
	case metricTarget.Type == autoscalingv2.AverageValueMetricType && metricTarget.AverageValue != nil:
		return metricTarget.AverageValue.String()
	case metricTarget.Type == autoscalingv2.UtilizationMetricType && metricTarget.AverageUtilization != nil:
		return strconv.Itoa(int(*metricTarget.AverageUtilization))
	case metricTarget.Value != nil:
		return metricTarget.Value.String()
	}
	return ""
}

// currentQuantity returns the current value of the i-th metric of the spec. The controller writes
// the status in the order of the spec, with an empty entry for a metric that it could not read.
func currentQuantity(all []autoscalingv2.MetricStatus, i int, m *inspect.AutoscalerMetric) string {
	if i >= len(all) {
		return ""
	}
	name, current := statusOf(&all[i])
	if current == nil || name != m.Name || string(all[i].Type) != m.Source {
		return ""
	}
	switch m.TargetType {
	case string(autoscalingv2.AverageValueMetricType):
		return quantityText(current.AverageValue)
	case string(autoscalingv2.UtilizationMetricType):
		if current.AverageUtilization == nil {
			return ""
		}
		return strconv.Itoa(int(*current.AverageUtilization))
	}
	return quantityText(current.Value)
}

func quantityText(q *quantity.Quantity) string {
	if q == nil {
		return ""
	}
	return q.String()
}

func statusOf(metricStatus *autoscalingv2.MetricStatus) (name string, current *autoscalingv2.MetricValueStatus) {
	switch {
	case metricStatus.Pods != nil:
		return metricStatus.Pods.Metric.Name, &metricStatus.Pods.Current
	case metricStatus.External != nil:
		return AskedExternal(metricStatus.External.Metric.Name), &metricStatus.External.Current
	case metricStatus.Object != nil:
		return metricStatus.Object.Metric.Name, &metricStatus.Object.Current
	case metricStatus.Resource != nil:
		return string(metricStatus.Resource.Name), &metricStatus.Resource.Current
	case metricStatus.ContainerResource != nil:
		return string(metricStatus.ContainerResource.Name), &metricStatus.ContainerResource.Current
	}
	return "", nil
}

func conditionDocuments(all []autoscalingv2.HorizontalPodAutoscalerCondition) []inspect.AutoscalerCondition {
	if len(all) == 0 {
		return nil
	}
	list := make([]inspect.AutoscalerCondition, min(len(all), maxDocumentConditions))
	for i := range list {
		h := &all[i]
		list[i] = inspect.AutoscalerCondition{Type: common(string(h.Type)), Status: common(string(h.Status)),
			Reason: common(h.Reason), Message: common(inspect.ShortMessage(h.Message)),
			Since: h.LastTransitionTime.UTC()}
	}
	return list
}

func rulesDocument(h *autoscalingv2.HPAScalingRules) *inspect.ScalingRules {
	if h == nil {
		return nil
	}
	rules := &inspect.ScalingRules{StabilizationWindowSeconds: h.StabilizationWindowSeconds,
		Tolerance: quantityText(h.Tolerance)}
	if h.SelectPolicy != nil {
		rules.SelectPolicy = common(string(*h.SelectPolicy))
	}
	for _, policy := range h.Policies[:min(len(h.Policies), MaxPolicies)] {
		rules.Policies = append(rules.Policies, inspect.ScalingPolicy{Type: common(string(policy.Type)), Value: policy.Value,
			PeriodSeconds: policy.PeriodSeconds})
	}
	return rules
}

// common returns the one copy of a text that most autoscalers have, or the text itself.
func common(text string) string {
	if commonText, ok := commonTexts[text]; ok {
		return commonText
	}
	return text
}

var commonTexts = func() map[string]string {
	all := map[string]string{}
	for _, text := range []string{
		"v1", "apps/v1", "Deployment", "StatefulSet", "Service", "Ingress", "networking.k8s.io/v1", "Namespace", "Pod",
		"Pods", "Object", "External", "Resource", "ContainerResource", "cpu", "memory", "Value",
		"AverageValue", "Utilization",
		"AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero", "true", "True", "False", "Unknown", "Max", "Min",
		"Disabled", "Percent",
		"ReadyForNewScale", "SucceededRescale", "ScaleDownStabilized", "ScaleUpStabilized", "ValidMetricFound",
		"DesiredWithinRange", "TooFewReplicas", "TooManyReplicas", "ScalingDisabled",
		"FailedGetPodsMetric", "FailedGetObjectMetric", "FailedGetExternalMetric",
		"recommended size matches current size", "the desired count is within the acceptable range",
		"the desired replica count is less than the minimum replica count",
		"the desired replica count is more than the maximum replica count",
	} {
		all[text] = text
	}
	return all
}()

// FieldManager is the field manager of nudges. Each process that patches an autoscaler has a name there.
const FieldManager = "sluice-instant"

// PolicyTwice reports whether the last policy stands there twice.
func PolicyTwice(all []inspect.ScalingPolicy) bool {
	n := len(all)
	return n > 1 && all[n-1] == all[n-2]
}

// markOf finds what nudges have left in an autoscaler.
func markOf(h *autoscalingv2.HorizontalPodAutoscaler) inspect.Mark {
	if h.Spec.Behavior == nil || h.Spec.Behavior.ScaleUp == nil {
		return inspect.Unmarked
	}
	i := slices.IndexFunc(h.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == FieldManager })
	if i < 0 || h.ManagedFields[i].FieldsV1 == nil {
		return inspect.Unmarked
	}
	var owned struct {
		Spec struct {
			Behavior map[string]json.RawMessage `json:"f:behavior"`
		} `json:"f:spec"`
	}
	if json.Unmarshal(h.ManagedFields[i].FieldsV1.GetRawBytes(), &owned) != nil {
		return inspect.Unmarked
	}
	switch _, whole := owned.Spec.Behavior["."]; {
	case whole && isDefault(h.Spec.Behavior):
		return inspect.MarkedBehavior
	case len(owned.Spec.Behavior) > 0 && PolicyTwice(rulesDocument(h.Spec.Behavior.ScaleUp).Policies):
		return inspect.MarkedPolicy
	}
	return inspect.Unmarked
}

// isDefault reports whether a behavior has nothing but what a nudge writes where there was none, and the API server adds.
// Where somebody has added fields to it, the nudge stays the owner of the behavior as a whole.
func isDefault(b *autoscalingv2.HorizontalPodAutoscalerBehavior) bool {
	up, down := rulesDocument(b.ScaleUp), rulesDocument(b.ScaleDown)
	policies := up.Policies
	if PolicyTwice(policies) {
		policies = policies[:len(policies)-1]
	}
	window := up.StabilizationWindowSeconds
	if !slices.Equal(policies, inspect.DefaultScaleUp) || window != nil && *window != 0 || !selectsDefault(up) {
		return false
	}
	return down == nil || slices.Equal(down.Policies, defaultScaleDown) && down.StabilizationWindowSeconds == nil && selectsDefault(down)
}

// defaultScaleDown are the policies that the API server adds.
var defaultScaleDown = []inspect.ScalingPolicy{{Type: "Percent", Value: 100, PeriodSeconds: 15}}

func selectsDefault(r *inspect.ScalingRules) bool {
	return (r.SelectPolicy == "" || r.SelectPolicy == string(autoscalingv2.MaxChangePolicySelect)) && r.Tolerance == ""
}
