package document

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

func podsMetric(name string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: name}}}
}

// heap is the size of all reachable objects.
func heap() int64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func parsed(text string) *quantity.Quantity {
	q := quantity.MustParse(text)
	return &q
}

// fullAutoscaler has every sort of metric, a status and a behaviour.
func fullAutoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	two, controller, percent, disabled := int32(2), true, int32(80), autoscalingv2.DisabledPolicySelect
	created := metav1.NewTime(time.Date(2026, 3, 14, 13, 0, 0, 0, time.FixedZone("CET", 3600)))
	average := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: parsed("10")}
	value := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: parsed("1500m")}
	queue := &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "eu"}, MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"gold", "silver"}}}}
	ingress := autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "main"}
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", CreationTimestamp: created,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ScaledObject", Name: "web-scaler", Controller: &controller}}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    &two, MaxReplicas: 9,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "requests:rate:10s"}, Target: average}},
				{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{DescribedObject: ingress, Metric: autoscalingv2.MetricIdentifier{Name: "hits"}, Target: value}},
				{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: `Queue\|Orders`, Selector: queue}, Target: value}},
				{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{Type: "Utilization", AverageUtilization: &percent}}},
				{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "memory", Container: "app", Target: average}},
			},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &two, Tolerance: parsed("50m"),
					Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 60}}},
				ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: &disabled},
			},
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			CurrentReplicas: 3, DesiredReplicas: 4, LastScaleTime: &created,
			CurrentMetrics: []autoscalingv2.MetricStatus{
				{Type: "Pods", Pods: &autoscalingv2.PodsMetricStatus{Metric: autoscalingv2.MetricIdentifier{Name: "requests:rate:10s"},
					Current: autoscalingv2.MetricValueStatus{AverageValue: parsed("12500m")}}},
				{}, // the controller could not read it
				{Type: "External", External: &autoscalingv2.ExternalMetricStatus{Metric: autoscalingv2.MetricIdentifier{Name: "another"},
					Current: autoscalingv2.MetricValueStatus{Value: parsed("1")}}}, // of an older spec
				{Type: "Resource", Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu", Current: autoscalingv2.MetricValueStatus{AverageUtilization: &percent}}},
			},
			Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: "ScalingActive", Status: "False",
				Reason: "FailedGetObjectMetric", Message: strings.Repeat("x", 5000), LastTransitionTime: created}},
		},
	}
}

func TestDocumentOfAnAutoscaler(t *testing.T) {
	d := Of(fullAutoscaler())
	if n := len(d.Conditions[0].Message); n != 1024 {
		t.Errorf("a message of %d bytes", n)
	}
	d.Conditions[0].Message = "x"
	got, err := json.MarshalIndent(d, "", " ")
	must(t, err)
	want := `{
 "namespace": "shop",
 "name": "web",
 "uid": "u",
 "created": "2026-03-14T12:00:00Z",
 "targetAPIVersion": "apps/v1",
 "targetKind": "Deployment",
 "targetName": "web",
 "scaledObject": "web-scaler",
 "minReplicas": 2,
 "maxReplicas": 9,
 "currentReplicas": 3,
 "desiredReplicas": 4,
 "lastScaleTime": "2026-03-14T12:00:00Z",
 "metrics": [
  {"source": "Pods", "name": "requests:rate:10s", "targetType": "AverageValue", "target": "10", "current": "12500m"},
  {"source": "Object", "name": "hits", "objectAPIVersion": "networking.k8s.io/v1", "objectKind": "Ingress", "objectName": "main", "targetType": "Value", "target": "1500m"},
  {"source": "External", "name": "queue\\|orders", "selector": "queue=eu,tier in (gold,silver)", "targetType": "Value", "target": "1500m"},
  {"source": "Resource", "name": "cpu", "targetType": "Utilization", "target": "80", "current": "80"},
  {"source": "ContainerResource", "name": "memory", "container": "app", "targetType": "AverageValue", "target": "10"}
 ],
 "conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetObjectMetric", "message": "x", "since": "2026-03-14T12:00:00Z"}],
 "scaleUp": {"stabilizationWindowSeconds": 2, "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}], "tolerance": "50m"},
 "scaleDown": {"selectPolicy": "Disabled"}
}`
	if plain(t, string(got)) != plain(t, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if bare := Of(&autoscalingv2.HorizontalPodAutoscaler{}); bare.MinReplicas != 1 || bare.Metrics != nil || bare.ScaleUp != nil {
		t.Errorf("of an empty spec: %+v", bare)
	}
}

// plain formats JSON without its order and white space, and without the fields of Sluice's answers.
func plain(t *testing.T, text string) string {
	t.Helper()
	var of map[string]any
	must(t, json.Unmarshal([]byte(text), &of))
	for _, m := range of["metrics"].([]any) {
		delete(m.(map[string]any), "asked")
		delete(m.(map[string]any), "missing")
	}
	out, err := json.Marshal(of)
	must(t, err)
	return string(out)
}

// A document is bounded, however large its autoscaler is.
func TestDocumentOfAHugeAutoscaler(t *testing.T) {
	h := fullAutoscaler()
	for range 5000 {
		h.Spec.Metrics = append(h.Spec.Metrics, podsMetric("x"))
		h.Status.Conditions = append(h.Status.Conditions, h.Status.Conditions[0])
		h.Spec.Behavior.ScaleUp.Policies = append(h.Spec.Behavior.ScaleUp.Policies, h.Spec.Behavior.ScaleUp.Policies[0])
	}
	d := Of(h)
	if len(d.Metrics) != maxDocumentMetrics || len(d.Conditions) != maxDocumentConditions || len(d.ScaleUp.Policies) != MaxPolicies {
		t.Errorf("%d metrics, %d conditions, %d policies", len(d.Metrics), len(d.Conditions), len(d.ScaleUp.Policies))
	}
}

// realAutoscaler is the n-th autoscaler of a large cluster, as decoded from the API: two metrics,
// three conditions, a behaviour.
func realAutoscaler(t testing.TB, n int) *autoscalingv2.HorizontalPodAutoscaler {
	h := fullAutoscaler()
	h.Namespace, h.Name, h.UID = fmt.Sprintf("team-%d", n/10), fmt.Sprintf("service-%d", n), uuid.NewUUID()
	h.OwnerReferences, h.Spec.ScaleTargetRef.Name = nil, h.Name
	h.Spec.Metrics, h.Status.CurrentMetrics = h.Spec.Metrics[:2], h.Status.CurrentMetrics[:2]
	for i, c := range []autoscalingv2.HorizontalPodAutoscalerCondition{
		{Type: "AbleToScale", Status: "True", Reason: "ReadyForNewScale", Message: "recommended size matches current size"},
		{Type: "ScalingActive", Status: "True", Reason: "ValidMetricFound", Message: "the HPA was able to successfully calculate a replica count from pods metric requests:rate:10s"},
		{Type: "ScalingLimited", Status: "False", Reason: "DesiredWithinRange", Message: "the desired count is within the acceptable range"},
	} {
		h.Status.Conditions = append(h.Status.Conditions[:i], c)
	}
	wire, err := h.Marshal()
	must(t, err)
	decoded := &autoscalingv2.HorizontalPodAutoscaler{}
	must(t, decoded.Unmarshal(wire))
	return decoded
}

// An autoscaler takes at most 2 KiB, so the 3,000 of a large cluster take 6 MB; updates of the
// status, every 15 s, accumulate nothing.
func TestMemoryOfAnAutoscaler(t *testing.T) {
	const many = 3000
	before := heap()
	documents := make([]*inspect.Autoscaler, many)
	for range 2 {
		for i := range documents {
			documents[i] = Of(realAutoscaler(t, i))
		}
	}
	each := float64(heap()-before) / many
	t.Logf("%.0f bytes an autoscaler", each)
	if each > 2048 {
		t.Errorf("%.0f bytes an autoscaler; want at most 2 KiB", each)
	}
	runtime.KeepAlive(documents)
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A behavior that a nudge wrote is taken back whole as long as nobody has added to it. Whoever adds a field owns that alone:
// the nudge stays the owner of the whole.
func TestMarkOfABehaviorThatWasAddedTo(t *testing.T) {
	hour, least, defaults := int32(3600), autoscalingv2.MinChangePolicySelect, autoscalingv2.MaxChangePolicySelect
	policies := func(all ...autoscalingv2.HPAScalingPolicy) []autoscalingv2.HPAScalingPolicy { return all }
	pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
	for name, c := range map[string]struct {
		change func(up, down *autoscalingv2.HPAScalingRules)
		want   inspect.Mark
	}{
		"nothing was added":  {func(_, _ *autoscalingv2.HPAScalingRules) {}, inspect.MarkedBehavior},
		"a policy twice":     {func(up, _ *autoscalingv2.HPAScalingRules) { up.Policies = policies(pods, percent, percent) }, inspect.MarkedBehavior},
		"a window down":      {func(_, down *autoscalingv2.HPAScalingRules) { down.StabilizationWindowSeconds = &hour }, inspect.Unmarked},
		"a window up":        {func(up, _ *autoscalingv2.HPAScalingRules) { up.StabilizationWindowSeconds = &hour }, inspect.Unmarked},
		"a selection down":   {func(_, down *autoscalingv2.HPAScalingRules) { down.SelectPolicy = &least }, inspect.Unmarked},
		"a selection up":     {func(up, _ *autoscalingv2.HPAScalingRules) { up.SelectPolicy = &least }, inspect.Unmarked},
		"a tolerance":        {func(_, down *autoscalingv2.HPAScalingRules) { down.Tolerance = parsed("0.2") }, inspect.Unmarked},
		"policies down":      {func(_, down *autoscalingv2.HPAScalingRules) { down.Policies = policies(pods) }, inspect.Unmarked},
		"policies up":        {func(up, _ *autoscalingv2.HPAScalingRules) { up.Policies = policies(pods) }, inspect.Unmarked},
		"policies up, twice": {func(up, _ *autoscalingv2.HPAScalingRules) { up.Policies = policies(pods, pods) }, inspect.MarkedPolicy},
	} {
		up := autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32), SelectPolicy: &defaults, Policies: policies(pods, percent)}
		down := autoscalingv2.HPAScalingRules{SelectPolicy: &defaults, Policies: policies(percent)}
		c.change(&up, &down)
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &up, ScaleDown: &down}
		h.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager, FieldsV1: metav1.NewFieldsV1(
			`{"f:spec":{"f:behavior":{".":{},"f:scaleUp":{"f:policies":{}}}}}`)}}
		if got := Of(h).Mark; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The name of a ScaledObject that is longer than any is none: the API server takes a megabyte.
func TestLongScaledObjectsAreNone(t *testing.T) {
	for _, c := range []struct {
		bytes int
		known bool
	}{{253, true}, {254, false}, {1 << 20, false}} {
		h := fullAutoscaler()
		h.OwnerReferences[0].Name = strings.Repeat("x", c.bytes)
		if got := Of(h).ScaledObject; (got != "") != c.known {
			t.Errorf("a name of %d bytes: %d are kept", c.bytes, len(got))
		}
	}
}
