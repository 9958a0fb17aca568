package explain

import (
	"strings"
	"testing"

	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// atZero is an autoscaler at zero with the annotation.
func atZero(w inspect.Wake) *Facts {
	f := shop()
	external(f, "queue_depth", "")
	f.Readings[0] = Reading{Asked: true, Values: []Value{value("queue=mail", 0)}}
	a := &f.Autoscaler
	a.MinReplicas, a.CurrentReplicas, a.DesiredReplicas = 0, 0, 0
	f.Scale.SpecReplicas, f.Scale.StatusReplicas, f.Pods = 0, 0, []inspect.TargetPod{}
	a.Conditions = []inspect.AutoscalerCondition{{Type: "ScaledToZero", Status: "True"}}
	w.Annotation = "true"
	a.Wake = &w
	return f
}

func TestWake(t *testing.T) {
	for _, c := range []struct {
		name  string
		wake  inspect.Wake
		facts func(*Facts)
		cause Cause
	}{
		{"wake-armed", inspect.Wake{State: inspect.WakeArmed, Last: noon.Add(-5 * time.Minute)}, nil, ""},
		{"wake-unknown-value", inspect.Wake{State: inspect.WakeArmed, Why: "External metric queue_depth has no value: none was ever received"}, nil, ""},
		{"wake-cooldown", inspect.Wake{State: inspect.WakeCooldown, Last: noon.Add(-9 * time.Second)}, nil, ""},
		{"wake-running", inspect.Wake{State: inspect.WakeRunning}, nil, ""},
		{"wake-off", inspect.Wake{State: inspect.WakeOff, Why: "this Sluice runs without the setting wake (chart: wake.enabled)"}, nil, NotWoken},
		{"wake-forbidden", inspect.Wake{State: inspect.WakeForbidden, Why: "Sluice may not scale the target: the right to patch the scale subresource of Deployment is missing (chart: wake.kinds)"}, nil, NotWoken},
		{"wake-failing", inspect.Wake{State: inspect.WakeFailing, Why: `there is no such target: deployments.apps "web" not found`}, nil, NotWoken},
		{"wake-min-replicas", inspect.Wake{State: inspect.WakeIgnored, Why: "minReplicas is 1; must be 0"}, func(f *Facts) { f.Autoscaler.MinReplicas = 1 }, NotWoken},
		{"wake-annotation", inspect.Wake{State: inspect.WakeIgnored}, func(f *Facts) { f.Autoscaler.Wake.Annotation = "yes" }, NotWoken},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := atZero(c.wake)
			if c.facts != nil {
				c.facts(f)
			}
			r := Autoscaler(f)
			var found Cause
			for _, finding := range r.Findings {
				if finding.Cause == NotWoken {
					found = finding.Cause
				}
			}
			if found != c.cause || r.Broken() {
				t.Errorf("findings %+v, want %q as a note", r.Findings, c.cause)
			}
			var text strings.Builder
			must(t, r.WriteText(&text, noon))
			golden(t, c.name, text.String())
		})
	}
}
