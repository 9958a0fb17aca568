package customkind

import (
	"maps"
	"slices"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// Listed are the documents of all rules.
func (b *Rulebook) Listed() []inspect.Rule {
	verdicts := b.Set().Verdicts()
	all := make([]inspect.Rule, len(verdicts))
	b.mu.Lock()
	hidden := b.hidden
	b.mu.Unlock()
	for n := range verdicts {
		v := &verdicts[n]
		all[n] = ruleListed(v)
		if text := hidden[v.Document.String()]; text != "" {
			all[n].State, all[n].Message = inspect.RulePushed, text
		}
	}
	return all
}

func ruleListed(v *rule.Verdict) inspect.Rule {
	d := v.Document
	one := inspect.Rule{Namespace: d.Namespace, Name: d.Name, Metric: d.Spec.Metric, Expression: d.Spec.Value,
		From: slices.Compact(slices.Sorted(maps.Values(d.Spec.Let))), State: string(v.Reason), Message: v.Fault}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Let)) {
		one.Operands = append(one.Operands, inspect.RuleOperand{Name: name, Metric: d.Spec.Let[name], Selector: d.Spec.Selectors[name]})
	}
	if d.Spec.Rename != nil {
		one.Metric, one.From = d.Spec.Rename.To, []string{d.Spec.Rename.From}
	}
	if v.Rule == nil {
		return one
	}
	if last := v.Rule.Last(); last != nil {
		one.Value, one.Time = string(last.Number.Append(nil)), last.Time.UTC()
		one.Of = inspect.Reference{Resource: last.Object.Resource, Namespace: last.Object.Namespace, Name: last.Object.Name}
	}
	return one
}

// ListedPolicy is the document of a policy. Its texts are cut, because a selector may have a megabyte.
func ListedPolicy(p *policy.Policy) inspect.Policy {
	subjects, rules := p.Subjects(), p.Rules()
	one := inspect.Policy{Namespace: p.Namespace, Name: p.Name, SubjectCount: len(subjects),
		Rules: make([]inspect.PolicyRule, len(rules)), State: inspect.PolicyAccepted}
	for _, s := range subjects[:min(len(subjects), inspect.PolicySubjects)] {
		one.Subjects = append(one.Subjects, s.String())
	}
	for n, r := range rules {
		one.Rules[n] = inspect.PolicyRule{Metric: r.Metric, Deny: r.Deny,
			Selector: metric.Truncate(r.Selector, inspect.PolicyText), Fault: metric.Truncate(r.Fault, inspect.PolicyText)}
	}
	for _, fault := range p.Faults {
		one.State, one.Faults = inspect.PolicyFaulty, append(one.Faults, metric.Truncate(fault, inspect.PolicyText))
	}
	return one
}
