package explain

import (
	"fmt"

	"github.com/sluice-metrics/sluice/inspect"
)

// NotWoken is the cause of an autoscaler whose annotation sluice.dev/wake has no effect. Its controller
// still wakes the target, at a sync.
const NotWoken Cause = "not-woken"

// ofWake looks for a cause why the annotation has no effect.
func (f *Facts) ofWake() []Finding {
	a := &f.Autoscaler
	if a.Wake == nil {
		return nil
	}
	one := Finding{Cause: NotWoken, Warning: true, Text: a.Wake.Why}
	hpa := fmt.Sprintf("-n %s hpa %s", a.Namespace, a.Name)
	why := a.WakeRefusal()
	switch {
	case a.Wake.Annotation != "true":
		one.Text = why
		one.Remedy = []string{fmt.Sprintf("kubectl annotate --overwrite %s %s=true", hpa, inspect.WakeAnnotation)}
	case why != "" && a.MinReplicas != 0 && a.ScaledObject == "":
		one.Text = "the annotation " + inspect.WakeAnnotation + " has no effect: " + why
		one.Remedy = []string{fmt.Sprintf(`kubectl patch %s --type merge -p '{"spec":{"minReplicas":0}}'  # needs the feature gate HPAScaleToZero`, hpa)}
	case why != "":
		one.Text = "the annotation " + inspect.WakeAnnotation + " has no effect: " + why
		one.Remedy = []string{fmt.Sprintf("kubectl annotate %s %s-", hpa, inspect.WakeAnnotation)}
	case a.Wake.State == inspect.WakeOff:
		one.Text = "the annotation " + inspect.WakeAnnotation + " has no effect: " + a.Wake.Why
		one.Remedy = []string{"helm upgrade … --set wake.enabled=true"}
	case a.Wake.State == inspect.WakeForbidden:
		one.Remedy = []string{"helm upgrade … --set 'wake.kinds={deployments.apps,statefulsets.apps,…}'  # with the plural and the group of " + a.TargetKind}
	case a.Wake.State == inspect.WakeFailing:
	default:
		return nil
	}
	return []Finding{one}
}

// wake prints what Sluice does about a target at zero.
func (p *printer) wake(w *inspect.Wake) {
	if w == nil {
		return
	}
	text := map[inspect.WakeState]string{
		inspect.WakeRunning:  "nothing to do: the autoscaler hasn't scaled its target to zero",
		inspect.WakeArmed:    "armed: the push of a positive value sets the first replica",
		inspect.WakeCooldown: "woken shortly before: until the cooldown ends, the autoscaler alone sets the first replica",
	}[w.State]
	if text == "" {
		return // a finding says it
	}
	if !w.Last.IsZero() {
		text += fmt.Sprintf("; last woken %s ago", age(p.now.Sub(w.Last)))
	}
	p.line("Wake: %s", text)
	if w.State == inspect.WakeArmed && w.Why != "" {
		p.line("  %s", w.Why)
	}
}
