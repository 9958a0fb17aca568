package inspect

import "time"

// Autoscaler is a HorizontalPodAutoscaler, as its spec and status say, with what Sluice answers for
// each of its metrics. Quantities are written as Kubernetes writes them ("1500m").
type Autoscaler struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// Created is the creation of the autoscaler.
	Created time.Time `json:"created,omitzero"`
	// Generation counts the changes of the spec, ObservedGeneration is the one that the controller has seen;
	// 0: the API server doesn't count them.
	Generation         int64 `json:"generation,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Target is the scaled object: kind and name.
	TargetAPIVersion string `json:"targetAPIVersion,omitempty"`
	TargetKind       string `json:"targetKind"`
	TargetName       string `json:"targetName"`
	// ScaledObject is KEDA's ScaledObject that owns the autoscaler, if there is one.
	ScaledObject string `json:"scaledObject,omitempty"`

	MinReplicas     int32     `json:"minReplicas"`
	MaxReplicas     int32     `json:"maxReplicas"`
	CurrentReplicas int32     `json:"currentReplicas"`
	DesiredReplicas int32     `json:"desiredReplicas"`
	LastScaleTime   time.Time `json:"lastScaleTime,omitzero"`

	Metrics []AutoscalerMetric `json:"metrics"`
	// Unread says why Sluice does not know the metrics, so there are none; empty: it does.
	Unread     string                `json:"unread,omitempty"`
	Conditions []AutoscalerCondition `json:"conditions,omitempty"`
	ScaleUp    *ScalingRules         `json:"scaleUp,omitempty"`
	ScaleDown  *ScalingRules         `json:"scaleDown,omitempty"`
	// Wake is of an autoscaler with the annotation sluice.dev/wake.
	Wake *Wake `json:"wake,omitempty"`
	// Instant is of an autoscaler with the annotation sluice.dev/instant. Mark is what a nudge has left.
	Instant *Instant `json:"instant,omitempty"`
	Mark    Mark     `json:"-"`
}

// Wants reports whether the controller has computed DesiredReplicas. Its status says 0 while no metric
// has a value; 0 is a wish only where the minimum is 0.
func (a *Autoscaler) Wants() bool { return a.DesiredReplicas > 0 || a.MinReplicas == 0 }

// Sources of an autoscaler's metrics (autoscaling/v2, MetricSourceType).
const (
	SourcePods     = "Pods"
	SourceObject   = "Object"
	SourceExternal = "External"
)

// AutoscalerMetric is an entry of spec.metrics, and its status.
type AutoscalerMetric struct {
	// Source is "Pods", "Object", "External", "Resource" or "ContainerResource". The last two are
	// not answered by Sluice.
	Source string `json:"source"`
	// Name as the spec spells it, with stat and window; of Resource and ContainerResource metrics:
	// "cpu" or "memory".
	Name string `json:"name"`
	// Container of a ContainerResource metric.
	Container string `json:"container,omitempty"`
	// Object is the described object of an Object metric: kind and name.
	ObjectAPIVersion string `json:"objectAPIVersion,omitempty"`
	ObjectKind       string `json:"objectKind,omitempty"`
	ObjectName       string `json:"objectName,omitempty"`
	// Selector is spec.metric.selector, as kubectl prints one.
	Selector string `json:"selector,omitempty"`
	// TargetType is "Value", "AverageValue" or "Utilization"; Target is a quantity.
	TargetType string `json:"targetType"`
	Target     string `json:"target"`
	// Current is status.currentMetrics' value; empty: none.
	Current string `json:"current,omitempty"`

	// The fields below are Sluice's own answer, as of a few seconds ago; absent where Sluice is not
	// asked.

	// Asked is set if Sluice answers this metric. If not, Why says why not, in a sentence.
	Asked bool `json:"asked"`
	// Provider is the other provider that Sluice forwards the metric to; empty: none. ProviderFault is why it
	// gave no answer last; empty: it answered.
	Provider      string `json:"provider,omitempty"`
	ProviderFault string `json:"providerFault,omitempty"`
	// Missing is set if Sluice is asked and has no value. Why says why, in a sentence.
	Missing bool      `json:"missing"`
	Why     string    `json:"why,omitempty"`
	Since   time.Time `json:"since,omitzero"` // since when it is missing
	// Value is the sum over all series (External, Object) or the mean over the pods that have one
	// (Pods).
	Value string `json:"value,omitempty"`
	// Values is the number of series or pods behind the value.
	Values int `json:"values,omitempty"`
	// Pods is the number of the target's pods (Pods), or of the pods that the value is rolled up from
	// (Object; 0: it is no roll-up). Values of them have one.
	Pods int `json:"pods,omitempty"`
	// HeldBack is set if pods without a value, or whose value lacks series that a limit rejects, change or
	// may change what the controller decides: a sentence that names them. Pods that have just started
	// don't count.
	HeldBack string `json:"heldBack,omitempty"`
	// Without are some of the pods without a value (Pods), at most MaxWithout.
	Without []PodWithout `json:"without,omitempty"`
}

// SameMetric reports whether two metrics ask the same.
func SameMetric(a, b AutoscalerMetric) bool {
	return a.Source == b.Source && a.Name == b.Name && a.Selector == b.Selector &&
		a.ObjectAPIVersion == b.ObjectAPIVersion && a.ObjectKind == b.ObjectKind && a.ObjectName == b.ObjectName
}

// PodWithout is a pod of an autoscaler's target that has no value of a metric.
type PodWithout struct {
	Name string `json:"name"`
	// Why is the reason, as the end of a sentence about the pod.
	Why string `json:"why"`
	// Refused is set if Sluice rejected what the pod pushed.
	Refused bool `json:"refused,omitempty"`
}

// MaxWithout bounds the pods of AutoscalerMetric.Without. Rejected ones come first.
const MaxWithout = 10

// AutoscalerCondition is a condition of an autoscaler's status.
type AutoscalerCondition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// ScalingRules is one direction of spec.behavior. A nil field is Kubernetes' default.
type ScalingRules struct {
	StabilizationWindowSeconds *int32          `json:"stabilizationWindowSeconds,omitempty"`
	SelectPolicy               string          `json:"selectPolicy,omitempty"`
	Policies                   []ScalingPolicy `json:"policies,omitempty"`
	// Tolerance is a quantity; empty: the controller's default, 0.1.
	Tolerance string `json:"tolerance,omitempty"`
}

// ScalingPolicy limits a change per period: "Pods" or "Percent".
type ScalingPolicy struct {
	Type          string `json:"type"`
	Value         int32  `json:"value"`
	PeriodSeconds int32  `json:"periodSeconds"`
}

// TargetPod is a pod of an autoscaler's target.
type TargetPod struct {
	Name     string
	Phase    string
	Ready    bool
	Deleting bool
	Started  time.Time
	Node     string            // empty: unknown, or none yet
	Labels   map[string]string // nil: unknown
}

// ShortMessage is a message, or its beginning if it is longer than an Event's may be.
func ShortMessage(message string) string {
	const limit = 1024
	if len(message) <= limit {
		return message
	}
	return message[:limit-3] + "..."
}

// The controller of HorizontalPodAutoscalers reads the metrics APIs with a service account of its own, as
// kubeadm configures it.
const (
	// ControllerAccount is that account, as "namespace:name".
	ControllerAccount = "kube-system:horizontal-pod-autoscaler"
	// ControllerUser is its name as a user.
	ControllerUser = "system:serviceaccount:" + ControllerAccount
)

// ControllerGroups are the groups of ControllerUser. The caller owns them.
func ControllerGroups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
}
