package explain

import (
	"io"
	"time"
)

// mostEvents bounds the printed Events.
const mostEvents = 5

// WriteText prints a report for people.
func (r *ScaledObjectReport) WriteText(w io.Writer, now time.Time) error {
	p := printer{w: w, now: now}
	present := "an unknown number of replicas"
	if r.Replicas != nil {
		present = replicas(*r.Replicas)
	}
	p.line("scaledobject/%s in %s scales %s/%s: %s now, %d to %d allowed", r.Name, r.Namespace, r.TargetKind, r.TargetName,
		present, r.MinReplicas, r.MaxReplicas)
	p.findings(&Report{Findings: r.Findings})
	for i := range r.Triggers {
		p.trigger(&r.Triggers[i])
	}
	if r.Formula != "" {
		p.line("")
		p.line("KEDA joins the triggers by a formula: %s", r.Formula)
	}
	if a := r.Autoscaler; a != nil {
		p.autoscalerOfKEDA(a)
	}
	p.events(r.Events)
	p.unknown(r.Unknown)
	return p.err
}

func (p *printer) trigger(t *TriggerReport) {
	p.line("")
	name := ""
	if t.Name != "" {
		name = " (" + t.Name + ")"
	}
	if t.Asks == "" {
		p.line("Trigger %d%s, %s: not from Sluice", t.Index, name, t.Type)
		return
	}
	p.line("Trigger %d%s, %s: %s", t.Index, name, t.Type, t.Asks)
	if t.Has != "" {
		p.line("  Sluice has  %s", t.Has)
	}
	switch {
	case t.Fault != "":
		p.line("  KEDA gets   no value: %s", heart(t.Fault))
	case t.Value != "" && *t.Active:
		p.line("  KEDA gets   %s: active", t.Value)
	case t.Value != "":
		p.line("  KEDA gets   %s: not active", t.Value)
	default:
		p.line("  KEDA gets   unknown")
	}
}

func (p *printer) autoscalerOfKEDA(a *Report) {
	p.line("")
	p.line("Autoscaler hpa/%s, made by KEDA", a.Autoscaler.Name)
	for i := range a.Metrics {
		m := &a.Metrics[i]
		p.line("  %s, target %s", m.Name, a.Autoscaler.Metrics[i].Target)
		for _, s := range m.Steps {
			p.line("    %s", s)
		}
	}
	p.line("")
	p.line("Decision")
	for _, s := range a.Decision.Steps {
		p.line("  %s", s)
	}
	if n := a.Decision.Replicas; n != nil {
		p.line("  = %s", replicas(*n))
	}
}

// events prints the newest Events with a warning.
func (p *printer) events(all []ObjectEvent) {
	printed := 0
	for _, e := range all {
		if !e.Warning || printed == mostEvents {
			continue
		}
		if printed++; printed == 1 {
			p.line("")
			p.line("Events of KEDA")
		}
		p.line("  %s ago, %d ×: %s: %s", age(p.now.Sub(e.Last)), max(e.Count, 1), e.Reason, e.Message)
	}
}
