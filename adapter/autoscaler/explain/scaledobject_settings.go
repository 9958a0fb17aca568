package explain

import (
	"fmt"
	"strings"
	"time"
)

// recent bounds the age of Events that say something about the present: KEDA repeats them at each
// poll.
const recent = 10 * time.Minute

// ofSettings are notes about a trigger that works, and not as one may expect.
func (f *ScaledObjectFacts) ofSettings(i int) (out []Finding) {
	t := &f.Triggers[i]
	note := func(text, remedy string) {
		out = append(out, Finding{Cause: TriggerSettings, Metric: fmt.Sprintf("trigger %d", i), Warning: true, Text: text, Remedy: []string{remedy}})
	}
	if len(t.Faults) > 0 {
		return nil
	}
	if f.MinReplicas == 0 && !t.Asks.AbsentIsZero {
		note("minReplicaCount is 0, and a metric that nobody has pushed is an error: at each poll KEDA closes the stream, and waits up to a minute before it opens another",
			`In the trigger's metadata: absent: "0"`)
	}
	if f.MinReplicas == 0 && t.Type == "external" {
		note("minReplicaCount is 0, and KEDA only polls this trigger: the first replica waits for pollingInterval (30 s by default)",
			"In the trigger: type: external-push")
	}
	if t.Cached {
		note("useCachedMetrics is set: the autoscaler gets values of KEDA's last poll, not present ones", "In the trigger: useCachedMetrics: false")
	}
	return out
}

// ofKEDA looks at KEDA's own conditions. explained: a fault is known already, which is why it isn't
// ready.
func (f *ScaledObjectFacts) ofKEDA(explained bool) (out []Finding) {
	if f.Paused {
		out = append(out, Finding{Cause: KEDAState, Warning: true, Text: "the ScaledObject is paused by an annotation: KEDA scales nothing",
			Remedy: []string{fmt.Sprintf("kubectl annotate scaledobject -n %s %s autoscaling.keda.sh/paused- autoscaling.keda.sh/paused-replicas-", f.Namespace, f.Name)}})
	}
	for _, c := range f.Conditions {
		switch {
		case c.Type == "Ready" && c.Status == "False" && !explained:
			out = append(out, f.notReady(c.Message))
		case c.Type == "Fallback" && c.Status == "True":
			out = append(out, Finding{Cause: KEDAState, Warning: true, Text: "KEDA gets no value from a trigger, so spec.fallback decides: " + c.Message,
				Remedy: []string{"The reason is a fault above, or in: " + operatorLog}})
		}
	}
	if f.AutoscalerName == "" && !explained && len(out) == 0 {
		out = append(out, Finding{Cause: KEDAState, Text: "KEDA has made no autoscaler yet",
			Remedy: []string{fmt.Sprintf("kubectl describe -n %s scaledobject %s", f.Namespace, f.Name), "kubectl get pods -n keda"}})
	}
	return out
}

// notReady explains the condition Ready. KEDA drops the scaler's own words there.
func (f *ScaledObjectFacts) notReady(message string) Finding {
	out := Finding{Cause: KEDAState, Text: "KEDA says: " + message,
		Remedy: []string{fmt.Sprintf("kubectl describe -n %s scaledobject %s", f.Namespace, f.Name)}}
	if strings.Contains(message, "no metric specs returned") {
		out.Text += ". KEDA got no answer from Sluice when the ScaledObject was made; only its log says why"
		out.Remedy = []string{operatorLog, restartKEDA}
	}
	return out
}
