package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// condition is a condition of the autoscaler's status; nil: it has none of that type.
func (f *Facts) condition(of string) *inspect.AutoscalerCondition {
	for i := range f.Autoscaler.Conditions {
		if c := &f.Autoscaler.Conditions[i]; c.Type == of {
			return c
		}
	}
	return nil
}

// cannotScale reports whether the controller cannot read or set the target's replicas.
func (f *Facts) cannotScale() bool {
	c := f.condition("AbleToScale")
	return c != nil && c.Status == "False"
}

// active is the status of the condition ScalingActive; empty: there is none.
func (f *Facts) active() string {
	if c := f.condition("ScalingActive"); c != nil {
		return c.Status
	}
	return ""
}

// judgeStatus explains by the controller's own message what the facts leave open: metrics that the person
// who asks may not read, and a message that is of a former moment.
func (f *Facts) judgeStatus(metrics []MetricReport, found []Finding) []Finding {
	c := f.condition("ScalingActive")
	if c == nil || c.Status != "False" || c.Reason == "ScalingDisabled" ||
		slices.ContainsFunc(found, func(finding Finding) bool { return !finding.Warning }) {
		return nil
	}
	switch {
	case c.Reason == "AmbiguousSelector":
		text, names := "several autoscalers select the same pods", ""
		if m := ambiguous.FindStringSubmatch(c.Message); m != nil {
			all := strings.Fields(m[1])
			slices.Sort(all)
			text += " (" + strings.Join(all, ", ") + ")"
			names = " " + strings.ReplaceAll(strings.Join(all, " "), f.Autoscaler.Namespace+"/", "")
		}
		return []Finding{{Cause: Overlap, Text: text + ", so Kubernetes scales by none of them",
			Remedy: []string{"kubectl get hpa -n " + f.Autoscaler.Namespace + names,
				"Give the workloads' pods different labels, and select by them; or delete all but one of these autoscalers"}}}
	case slices.ContainsFunc(metrics, func(m MetricReport) bool { return m.Unreadable }):
		return []Finding{{Cause: causeOf(c.Message), Text: "the controller gets no value (" + c.Reason +
			"): see what Kubernetes says",
			Remedy: []string{"With more rights: sluice explain -n " + f.Autoscaler.Namespace + " hpa/" + f.Autoscaler.Name}}}
	case !slices.ContainsFunc(metrics, func(m MetricReport) bool { return m.Foreign || m.Proposal == nil }):
		return []Finding{{Cause: OneBroken, Warning: true,
			Text:   "the status is of a former moment; each metric has a value now. The controller reads again within 15 s",
			Remedy: []string{"sluice explain -n " + f.Autoscaler.Namespace + " hpa/" + f.Autoscaler.Name + "  # again in 15 s"}}}
	}
	return nil
}

// ambiguous finds the autoscalers in the controller's message about them, which Kubernetes 1.37 changed.
var ambiguous = regexp.MustCompile(`controlled by (?:multiple HPAs:|more than one HPA \(e\.g\.) \[([^\]]*)\]`)

// unheard is how long the controller, which asks every 15 s, may be silent before its requests count as
// lost.
const unheard = 45 * time.Second

// judgeUnheard looks for metrics that have a value, which the controller says that it doesn't get, and hasn't
// asked for here lately: its requests go elsewhere, or nowhere.
func (f *Facts) judgeUnheard(metrics []MetricReport) []Finding {
	c := f.condition("ScalingActive")
	if c == nil || c.Status != "False" || !strings.HasPrefix(c.Reason, "FailedGet") {
		return nil
	}
	for i := range min(len(metrics), len(f.Asked)) {
		at := f.Asked[i]
		if metrics[i].Proposal == nil || !at.IsZero() && f.Now.Sub(at) < unheard {
			continue
		}
		since := "since the start"
		if !at.IsZero() {
			since = "for " + age(f.Now.Sub(at))
		}
		return []Finding{{Cause: Unreachable, Metric: metrics[i].Name,
			Text: fmt.Sprintf("the controller says that it gets no value (%s). Sluice has one, and this replica was not asked for it %s: requests for %s don't arrive here",
				c.Reason, since, GroupOf(metrics[i].Source)),
			Remedy: []string{"sluice explain -n " + f.Autoscaler.Namespace + " hpa/" + f.Autoscaler.Name + "  # says why",
				"kubectl get apiservices | grep metrics.k8s.io"}}}
	}
	return nil
}

// signs are parts of the controller's messages, in the order of the causes: an API that isn't there hides
// what comes after it.
var signs = []struct {
	text  string
	cause Cause
}{
	{"could not find the requested resource", NotRegistered}, {"no custom metrics API", NotRegistered},
	{"unable to handle the request", Unavailable}, {"forbidden", RightMissing},
}

// causeOf is the cause that a message of the controller is about: the first whose sign it has.
func causeOf(message string) Cause {
	for _, sign := range signs {
		if strings.Contains(message, sign.text) {
			return sign.cause
		}
	}
	return NeverPushed
}
