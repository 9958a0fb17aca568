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
	case a.Unread != "":
		return "its metrics are not read: " + a.Unread
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

// InstantAnnotation asks Sluice to have an autoscaler's controller look at a push instead of at its next
// sync. Its value is "true".
const InstantAnnotation = "sluice.dev/instant"

// Instant is the annotation sluice.dev/instant of an autoscaler, and what Sluice makes of it.
type Instant struct {
	Annotation string `json:"annotation"` // its value

	// The fields below are Sluice's own; absent before Sluice has looked.

	// State is one of the constants below. Why is its cause, in a sentence.
	State InstantState `json:"state,omitempty"`
	Why   string       `json:"why,omitempty"`
	// Last is the newest nudge; nil: this Sluice has given none.
	Last *Nudge `json:"last,omitempty"`
}

// Nudge is a change of an autoscaler's spec that has its controller look at once.
type Nudge struct {
	At      time.Time `json:"at"`
	Because string    `json:"because"` // the value, as in `External metric "jobs" is 50`
	// From and Want are the replicas before, and those that the controller was expected to set.
	From int32 `json:"from"`
	Want int32 `json:"want"`
	// Generation is that of the autoscaler with the nudge. The controller has answered once its status
	// observes it; Answer are the replicas that it then wanted.
	Generation int64     `json:"generation"`
	Answered   time.Time `json:"answered,omitzero"`
	Answer     int32     `json:"answer,omitempty"`
}

// InstantState says what Sluice does about an autoscaler with the annotation.
type InstantState string

const (
	InstantOff       InstantState = "off"       // Sluice runs without the setting
	InstantIgnored   InstantState = "ignored"   // the autoscaler can't be nudged
	InstantWatching  InstantState = "watching"  // a value that changes the replicas nudges
	InstantHeld      InstantState = "held"      // a limit of the autoscaler forbids what the values ask for
	InstantUnknown   InstantState = "unknown"   // what the controller would decide can't be computed
	InstantForbidden InstantState = "forbidden" // Sluice lacks the right
	InstantFailing   InstantState = "failing"   // the last attempt failed
)

// InstantRefusal says why an autoscaler with the annotation is not nudged, however its metrics are;
// empty: it is.
func (a *Autoscaler) InstantRefusal() string {
	switch {
	case a.Instant == nil:
		return "it has no annotation " + InstantAnnotation
	case a.Instant.Annotation != "true":
		return fmt.Sprintf(`the annotation %s is %q; must be "true"`, InstantAnnotation, a.Instant.Annotation)
	case a.Unread != "":
		return "its metrics are not read: " + a.Unread
	case a.ScaledObject != "":
		return "KEDA owns its spec and would overwrite the nudge; its ScaledObject has the type external-push from 0 to 1"
	case a.Generation == 0:
		return "its API server counts no generations of autoscalers (feature gate HPAGeneration, on by default from Kubernetes 1.37), " +
			"so its controller can't be nudged"
	case !slices.ContainsFunc(a.Metrics, AutoscalerMetric.Pushed):
		return "it has no metric of type Pods, Object or External; must have one that Sluice answers"
	}
	return ""
}

// Pushed reports whether a metric is of a source that Sluice may answer.
func (m AutoscalerMetric) Pushed() bool { return m.Source == SourcePods || m.Wakes() }

// ReplicasSet are the replicas that the controller has set or found, by its status. It keeps those that it wants at
// 0 until a metric has had a value.
func (a *Autoscaler) ReplicasSet() int32 {
	if a.DesiredReplicas == 0 && !a.ScaledToZero() {
		return a.CurrentReplicas
	}
	return a.DesiredReplicas
}

// Mark is what nudges have left in an autoscaler's spec.
type Mark int

const (
	Unmarked       Mark = iota
	MarkedPolicy        // the last policy of behavior.scaleUp stands there twice
	MarkedBehavior      // behavior, which was absent, holds the defaults
)

// DefaultScaleUp are the policies of an autoscaler without behavior, as autoscaling/v2 documents them. A nudge
// of such an autoscaler writes them out.
var DefaultScaleUp = []ScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 15},
	{Type: "Percent", Value: 100, PeriodSeconds: 15}}
