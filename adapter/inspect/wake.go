package inspect

import (
	"fmt"
	"slices"
	"time"
)

// WakeAnnotation asks Sluice to set the first replica of an autoscaler's target. Its value is "true".
const WakeAnnotation = "sluice.dev/wake"

// Wake is the annotation sluice.dev/wake of an autoscaler, and what Sluice makes of it.
type Wake struct {
	Annotation string `json:"annotation"` // its value

	// The fields below are Sluice's own; absent before Sluice has looked.

	// State is one of the constants below. Why is its cause, in a sentence.
	State WakeState `json:"state,omitempty"`
	Why   string    `json:"why,omitempty"`
	// Last is when Sluice last set the first replica, or found that another had.
	Last time.Time `json:"last,omitzero"`
}

// WakeState says what Sluice does about an autoscaler with the annotation.
type WakeState string

const (
	WakeOff       WakeState = "off"       // Sluice runs without the setting
	WakeIgnored   WakeState = "ignored"   // the autoscaler can't be woken
	WakeRunning   WakeState = "running"   // the target has replicas
	WakeArmed     WakeState = "armed"     // a positive value wakes the target
	WakeCooldown  WakeState = "cooldown"  // a positive value has woken it shortly before
	WakeForbidden WakeState = "forbidden" // Sluice lacks the right
	WakeFailing   WakeState = "failing"   // the last attempt failed
)

// WakeRefusal says why an autoscaler with the annotation is not woken, however its metrics are; empty:
// it is.
func (a *Autoscaler) WakeRefusal() string {
	switch {
	case a.Wake == nil:
		return "it has no annotation " + WakeAnnotation
	case a.Wake.Annotation != "true":
		return fmt.Sprintf(`the annotation %s is %q; must be "true"`, WakeAnnotation, a.Wake.Annotation)
	case a.ScaledObject != "":
		return "KEDA sets the first replica of its ScaledObjects; the type external-push does so at a push"
	case a.MinReplicas != 0:
		return fmt.Sprintf("minReplicas is %d; must be 0", a.MinReplicas)
	case a.ScaleUp != nil && a.ScaleUp.SelectPolicy == "Disabled":
		return "behavior.scaleUp.selectPolicy is Disabled; must allow to scale up"
	case !slices.ContainsFunc(a.Metrics, AutoscalerMetric.Wakes):
		return "it has no metric of type External or Object; must have one, because a target at zero has no pods"
	}
	return ""
}

// Wakes reports whether an autoscaler reads a metric while its target stands at zero.
func (m AutoscalerMetric) Wakes() bool { return m.Source == "External" || m.Source == "Object" }

// ScaledToZero reports whether the autoscaler's controller says that it has scaled the target to zero,
// and goes on reading the metrics. A target that somebody else set to zero is paused. CurrentReplicas
// are those before the controller's last sync, and stay until the next one.
func (a *Autoscaler) ScaledToZero() bool {
	return a.DesiredReplicas == 0 && a.has("ScaledToZero", "True", "") &&
		!a.has("ScalingActive", "False", "ScalingDisabled")
}

// has reports whether there is a condition; empty reason: any.
func (a *Autoscaler) has(sort, status, reason string) bool {
	return slices.ContainsFunc(a.Conditions, func(c AutoscalerCondition) bool {
		return c.Type == sort && c.Status == status && (reason == "" || c.Reason == reason)
	})
}
