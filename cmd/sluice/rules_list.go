package main

import (
	"maps"
	"slices"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate/rule"
)

// Rules implements inspect.Source.
func (i inspection) Rules(q inspect.Query) inspect.Page[inspect.Rule] {
	var all []inspect.Rule
	if i.rules != nil {
		all = i.rules.listed()
	}
	return inspect.Paged(q, all, func(r *inspect.Rule) (namespace, name string, key inspect.Key) {
		return r.Namespace, r.Name, inspect.Key{r.Namespace, r.Name}
	})
}

// listed are the documents of all rules.
func (b *rulebook) listed() []inspect.Rule {
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
