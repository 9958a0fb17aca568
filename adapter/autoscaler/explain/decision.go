package explain

import (
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// This file joins the proposals of all metrics, as the controller does: the highest wins; a metric
// without a value forbids to scale down; then come the bounds and the rates of spec.behavior. The
// controller also remembers its own recommendations and changes, which nobody else can read, so
// stabilization is named and not computed.

type decider struct {
	a   *inspect.Autoscaler
	out Decision
	// holds are the fields that hold the replicas, and what each does, a phrase.
	holds []hold
}

type hold struct{ field, does string }

func (d *decider) hold(field, format string, args ...any) {
	d.holds = append(d.holds, hold{field, fmt.Sprintf(format, args...)})
}

func (d *decider) step(format string, args ...any) {
	d.out.Steps = append(d.out.Steps, fmt.Sprintf(format, args...))
}

func (d *decider) decided(n int32) Decision {
	d.out.Replicas = &n
	return d.out
}

// replicasNow is the target's number of replicas.
func (f *Facts) replicasNow() int32 {
	if f.Scale != nil {
		return f.Scale.SpecReplicas
	}
	return f.Autoscaler.CurrentReplicas
}

func (f *Facts) decide(metrics []MetricReport) Decision {
	a := &f.Autoscaler
	d := decider{a: a}
	current := f.replicasNow()
	switch {
	case f.Scale == nil && f.cannotScale():
		d.step("nothing: the target's number of replicas can't be read or set")
		return d.out
	case current == 0 && a.MinReplicas > 0 && f.Scale != nil:
		d.step("the target has 0 replicas by its own spec: the autoscaler is disabled until somebody sets 1 or more")
		return d.out
	case current > a.MaxReplicas:
		d.step("%s now, more than maxReplicas (%d): no metric is asked", replicas(current), a.MaxReplicas)
		return d.decided(a.MaxReplicas)
	case current < a.MinReplicas:
		d.step("%s now, fewer than minReplicas (%d): no metric is asked", replicas(current), a.MinReplicas)
		return d.decided(a.MinReplicas)
	}
	highest, ok := d.highest(metrics, current)
	if !ok {
		return d.out
	}
	asked := d.tolerance(metrics, current, highest)
	out := d.decided(d.bounded(current, highest))
	if asked > current || foreign(metrics) == 0 { // a metric that isn't Sluice's may want to stay
		out.held = d.held(current, asked)
	}
	return out
}

// tolerance is what the metrics ask for. If the tolerance alone keeps the present number, it is a hold.
func (d *decider) tolerance(metrics []MetricReport, current, highest int32) int32 {
	asked := int32(0)
	for i := range metrics {
		if m := &metrics[i]; m.Proposal != nil {
			asked = max(asked, m.strict)
		}
	}
	asked = max(min(asked, d.a.MaxReplicas), d.a.MinReplicas)
	if highest != current || asked == highest {
		return highest
	}
	rules, field := d.a.ScaleUp, "spec.behavior.scaleUp.tolerance"
	if asked < current {
		rules, field = d.a.ScaleDown, "spec.behavior.scaleDown.tolerance"
	}
	d.hold(field, "%s; a ratio this near to 1 changes nothing", ratioText(toleranceOf(rules))+byDefault(rules == nil ||
		rules.Tolerance == ""))
	return asked
}

func byDefault(is bool) string {
	if is {
		return ", the controller's default"
	}
	return ""
}

// held says by which fields the autoscaler doesn't reach what its metrics ask for; nil: it does.
func (d *decider) held(current, asked int32) *Finding {
	if len(d.holds) == 0 {
		return nil
	}
	var does, fields []string
	for _, h := range d.holds {
		does, fields = append(does, h.field+" ("+h.does+")"), append(fields, h.field)
	}
	edit := fmt.Sprintf("kubectl edit hpa -n %s %s  # ", d.a.Namespace, d.a.Name) + strings.Join(fields, ", ")
	if d.a.ScaledObject != "" { // KEDA writes the autoscaler itself
		edit = fmt.Sprintf("kubectl edit scaledobject -n %s %s  # ", d.a.Namespace, d.a.ScaledObject) +
			ofScaledObject.Replace(strings.Join(fields, ", "))
	}
	return &Finding{Cause: HeldBySpec, Warning: true, Remedy: []string{edit},
		Text: fmt.Sprintf("the metrics ask for %s, and there %s now; held by %s", replicas(asked), isOrAre(current),
			strings.Join(does, ", and by "))}
}

// ofScaledObject are the fields of a ScaledObject that KEDA makes those of an autoscaler from.
var ofScaledObject = strings.NewReplacer("spec.maxReplicas", "spec.maxReplicaCount",
	"spec.behavior", "spec.advanced.horizontalPodAutoscalerConfig.behavior")

func isOrAre(n int32) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}

// highest is the highest proposal; false if the controller changes nothing.
func (d *decider) highest(metrics []MetricReport, current int32) (int32, bool) {
	var best *MetricReport
	broken, foreign, unreadable := 0, 0, 0
	for i := range metrics {
		m := &metrics[i]
		switch {
		case m.Foreign:
			foreign++
		case m.Unreadable:
			unreadable++
		case m.Proposal == nil:
			broken++
		case best == nil || *m.Proposal > *best.Proposal:
			best = m
		}
	}
	if foreign > 0 {
		d.step("%s not from Sluice; the controller may want more because of it", count(foreign, "metric"))
	}
	switch {
	case unreadable > 0:
		d.step("unknown, because you may not read %s", count(unreadable, "metric"))
		if d.a.DesiredReplicas > 0 {
			d.step("by its status, the autoscaler wants %s", replicas(d.a.DesiredReplicas))
		}
		return 0, false
	case best == nil && foreign > 0:
		d.step("nothing more is known: Sluice answers none of the metrics that have a value")
		return 0, false
	case best == nil:
		d.step("no metric has a value: the controller changes nothing")
		return 0, false
	case broken > 0 && *best.Proposal < current:
		d.step("%s asks for %d, but %s without a value: the controller doesn't scale down", best.Name, *best.Proposal,
			count(broken, "metric"))
		return 0, false
	case len(metrics) > 1:
		d.step("the highest proposal is that of %s: %d", best.Name, *best.Proposal)
	}
	return *best.Proposal, true
}

// bounded applies the rates of spec.behavior and the bounds.
func (d *decider) bounded(current, wanted int32) int32 {
	if wanted > d.a.MaxReplicas {
		d.step("maxReplicas: %d", d.a.MaxReplicas)
		d.hold("spec.maxReplicas", "%d", d.a.MaxReplicas)
		wanted = d.a.MaxReplicas
	}
	if wanted < d.a.MinReplicas {
		d.step("minReplicas: %d", d.a.MinReplicas)
		wanted = d.a.MinReplicas
	}
	switch {
	case wanted > current:
		if limit := upLimit(d.a.ScaleUp, current); wanted > limit {
			d.step("%s %d at once", allowedBy(d.a.ScaleUp, "behavior.scaleUp allows",
				"Kubernetes allows twice the present number, or 4:"), limit)
			d.rate("spec.behavior.scaleUp", d.a.ScaleUp, current, limit)
			wanted = limit
		}
		if s := seconds(d.a.ScaleUp, 0); s > 0 && wanted > current {
			d.hold("spec.behavior.scaleUp.stabilizationWindowSeconds", "%d; the rise waits until that was wanted for as long", s)
			d.step("behavior.scaleUp waits until that has been wanted for %d s", s)
		}
	case wanted < current:
		if limit := downLimit(d.a.ScaleDown, current); wanted < limit {
			d.step("behavior.scaleDown allows %d at once", limit)
			d.rate("spec.behavior.scaleDown", d.a.ScaleDown, current, limit)
			wanted = limit
		}
		if s := seconds(d.a.ScaleDown, 300); s > 0 && wanted < current {
			d.hold("spec.behavior.scaleDown.stabilizationWindowSeconds",
				"%d%s; the fall waits until no higher number was wanted for as long", s,
				byDefault(d.a.ScaleDown == nil || d.a.ScaleDown.StabilizationWindowSeconds == nil))
			d.step("scaling down waits until nothing more was wanted for %d s (stabilization)", s)
		}
	}
	return wanted
}

// rate is the hold of a direction's policies, which allow a step to limit.
func (d *decider) rate(field string, r *inspect.ScalingRules, current, limit int32) {
	switch {
	case r == nil:
		d.hold(field+".policies", "%d at once by default: twice the present number, or 4", limit)
	case r.SelectPolicy == "Disabled":
		d.hold(field+".selectPolicy", "Disabled")
	case limit == current:
		d.hold(field+".policies", "no change at all")
	default:
		d.hold(field+".policies", "%d at once", limit)
	}
}

func allowedBy(r *inspect.ScalingRules, rules, otherwise string) string {
	if r == nil {
		return otherwise
	}
	return rules
}

func seconds(r *inspect.ScalingRules, otherwise int32) int32 {
	if r == nil || r.StabilizationWindowSeconds == nil {
		return otherwise
	}
	return *r.StabilizationWindowSeconds
}

// upLimit is the highest number of replicas that one step up may reach, if no other change was made
// in the policies' periods. Without spec.behavior it is twice the present number, or 4.
func upLimit(r *inspect.ScalingRules, current int32) int32 {
	if r == nil {
		return max(2*current, 4)
	}
	return limit(r, current, func(p inspect.ScalingPolicy) int32 {
		if p.Type == "Pods" {
			return current + p.Value
		}
		return round(float64(current) * (1 + float64(p.Value)/100))
	}, true)
}

// downLimit is the lowest number of replicas that one step down may reach.
func downLimit(r *inspect.ScalingRules, current int32) int32 {
	if r == nil {
		return 0
	}
	return limit(r, current, func(p inspect.ScalingPolicy) int32 {
		if p.Type == "Pods" {
			return current - p.Value
		}
		return int32(float64(current) * (1 - float64(p.Value)/100))
	}, false)
}

// limit chooses among the policies: by default the one that allows the greatest change. The API
// server fills in the policies of a direction that has none.
func limit(r *inspect.ScalingRules, current int32, reach func(inspect.ScalingPolicy) int32, up bool) int32 {
	if r.SelectPolicy == "Disabled" || len(r.Policies) == 0 {
		return current
	}
	best := reach(r.Policies[0])
	for _, p := range r.Policies[1:] {
		if up == (r.SelectPolicy != "Min") {
			best = max(best, reach(p))
		} else {
			best = min(best, reach(p))
		}
	}
	return best
}
