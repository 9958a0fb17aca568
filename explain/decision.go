package explain

import (
	"fmt"

	"github.com/sluice-metrics/sluice/inspect"
)

// This file joins the proposals of all metrics, as the controller does: the highest wins; a metric
// without a value forbids to scale down; then come the bounds and the rates of spec.behavior. The
// controller also remembers its own recommendations and changes, which nobody else can read, so
// stabilization is named and not computed.

type decider struct {
	a   *inspect.Autoscaler
	out Decision
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
	return d.decided(d.bounded(current, highest))
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
		d.step("%s asks for %d, but %s without a value: the controller doesn't scale down", best.Name, *best.Proposal, count(broken, "metric"))
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
		wanted = d.a.MaxReplicas
	}
	if wanted < d.a.MinReplicas {
		d.step("minReplicas: %d", d.a.MinReplicas)
		wanted = d.a.MinReplicas
	}
	switch {
	case wanted > current:
		if limit := upLimit(d.a.ScaleUp, current); wanted > limit {
			d.step("%s %d at once", allowedBy(d.a.ScaleUp, "behavior.scaleUp allows", "Kubernetes allows twice the present number, or 4:"), limit)
			wanted = limit
		}
		if s := seconds(d.a.ScaleUp, 0); s > 0 {
			d.step("behavior.scaleUp waits until that has been wanted for %d s", s)
		}
	case wanted < current:
		if limit := downLimit(d.a.ScaleDown, current); wanted < limit {
			d.step("behavior.scaleDown allows %d at once", limit)
			wanted = limit
		}
		if s := seconds(d.a.ScaleDown, 300); s > 0 {
			d.step("scaling down waits until nothing more was wanted for %d s (stabilization)", s)
		}
	}
	return wanted
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
