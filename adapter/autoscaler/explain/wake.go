package explain

import (
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// NotWoken is the cause of an autoscaler whose annotation sluice.dev/wake has no effect. Its controller
// still wakes the target, at a sync.
const NotWoken Cause = "not-woken"

// judgeWake looks for a cause why the annotation has no effect.
func (f *Facts) judgeWake() []Finding {
	a := &f.Autoscaler
	if a.Wake == nil {
		return nil
	}
	finding := Finding{Cause: NotWoken, Warning: true, Text: a.Wake.Why}
	hpa := fmt.Sprintf("-n %s hpa %s", a.Namespace, a.Name)
	why := a.WakeRefusal()
	switch {
	case a.Wake.Annotation != "true":
		finding.Text = why
		finding.Remedy = []string{fmt.Sprintf("kubectl annotate --overwrite %s %s=true", hpa, inspect.WakeAnnotation)}
	case why != "" && a.MinReplicas != 0 && a.ScaledObject == "":
		finding.Text = "the annotation " + inspect.WakeAnnotation + " has no effect: " + why
		finding.Remedy = []string{fmt.Sprintf(
			`kubectl patch %s --type merge -p '{"spec":{"minReplicas":0}}'  # needs the feature gate HPAScaleToZero`, hpa)}
	case why != "":
		finding.Text = "the annotation " + inspect.WakeAnnotation + " has no effect: " + why
		finding.Remedy = []string{fmt.Sprintf("kubectl annotate %s %s-", hpa, inspect.WakeAnnotation)}
	case a.Wake.State == inspect.WakeOff:
		finding.Text = "the annotation " + inspect.WakeAnnotation + " has no effect: " + a.Wake.Why
		finding.Remedy = []string{"helm upgrade … --set wake.enabled=true"}
	case a.Wake.State == inspect.WakeForbidden:
		finding.Remedy = []string{"helm upgrade … --set 'wake.kinds={deployments.apps,statefulsets.apps,…}'  " +
			"# with the plural and the group of " + a.TargetKind}
	case a.Wake.State == inspect.WakeFailing:
	default:
		return nil
	}
	return []Finding{finding}
}

// NotInstant is the cause of an autoscaler whose annotation sluice.dev/instant has no effect. Its controller looks
// at its syncs.
const NotInstant Cause = "not-instant"

// judgeInstant looks for a cause why the annotation has no effect.
func (f *Facts) judgeInstant() []Finding {
	a := &f.Autoscaler
	if a.Instant == nil {
		return nil
	}
	finding := Finding{Cause: NotInstant, Warning: true, Text: "the annotation " + inspect.InstantAnnotation +
		" has no effect: " + a.Instant.Why}
	hpa := fmt.Sprintf("-n %s hpa %s", a.Namespace, a.Name)
	switch why := a.InstantRefusal(); {
	case a.Instant.Annotation != "true":
		finding.Text, finding.Remedy = why, []string{fmt.Sprintf("kubectl annotate --overwrite %s %s=true", hpa,
			inspect.InstantAnnotation)}
	case why != "":
		finding.Text = "the annotation " + inspect.InstantAnnotation + " has no effect: " + why
		finding.Remedy = []string{fmt.Sprintf("kubectl annotate %s %s-", hpa, inspect.InstantAnnotation)}
	case a.Instant.State == inspect.InstantOff, a.Instant.State == inspect.InstantForbidden:
		finding.Remedy = []string{"helm upgrade … --set instant.enabled=true"}
	case a.Instant.State == inspect.InstantFailing:
		finding.Text = "the controller could not be nudged: " + a.Instant.Why
	default:
		return nil
	}
	return []Finding{finding}
}

// atThePush says what Sluice does for the autoscaler at a push, besides answering: about a target at zero, and about
// values that change the replicas. Where that is nothing, a finding says why.
func (f *Facts) atThePush() []string {
	return append(wakeText(f.Autoscaler.Wake, f.Now), instantText(f.Autoscaler.Instant, f.Now)...)
}

func wakeText(w *inspect.Wake, now time.Time) []string {
	if w == nil {
		return nil
	}
	text := map[inspect.WakeState]string{
		inspect.WakeRunning:  "nothing to do: the autoscaler hasn't scaled its target to zero",
		inspect.WakeArmed:    "armed: the push of a positive value sets the first replica",
		inspect.WakeCooldown: "woken shortly before: until the cooldown ends, the autoscaler alone sets the first replica",
	}[w.State]
	if text == "" {
		return nil
	}
	if !w.Last.IsZero() {
		text += fmt.Sprintf("; last woken %s ago", age(now.Sub(w.Last)))
	}
	lines := []string{"Wake: " + text}
	if w.State == inspect.WakeArmed && w.Why != "" {
		lines = append(lines, "  "+w.Why)
	}
	return lines
}

func instantText(is *inspect.Instant, now time.Time) []string {
	if is == nil {
		return nil
	}
	text := map[inspect.InstantState]string{
		inspect.InstantWatching: "a push that changes the replicas nudges the controller",
		inspect.InstantHeld:     "not nudged: " + is.Why,
		inspect.InstantUnknown:  "not nudged: " + is.Why,
	}[is.State]
	if text == "" {
		return nil
	}
	lines := []string{"Instant: " + text}
	if last := is.Last; last != nil {
		answer := "not answered yet"
		if !last.Answered.IsZero() {
			answer = fmt.Sprintf("it set %d after %v", last.Answer, last.Answered.Sub(last.At).Round(time.Millisecond))
		}
		lines = append(lines, fmt.Sprintf("  last nudged %s ago, from %d to %d, because %s; %s",
			age(now.Sub(last.At)), last.From, last.Want, last.Because, answer))
	}
	return lines
}
