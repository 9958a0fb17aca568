package main

import (
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
)

// Policies implements inspect.Source.
func (i inspection) Policies(q inspect.Query) inspect.Page[inspect.Policy] {
	if i.policies == nil {
		return inspect.Page[inspect.Policy]{}
	}
	found := inspect.Paged(q, i.policies(), func(p **policy.Policy) (namespace, name string, key inspect.Key) {
		return (*p).Namespace, (*p).Name, inspect.Key{(*p).Namespace, (*p).Name}
	})
	page := inspect.Page[inspect.Policy]{Items: make([]inspect.Policy, len(found.Items)), Next: found.Next}
	for n, one := range found.Items {
		page.Items[n] = policyListed(one)
	}
	return page
}

// UnknownPolicies implements inspect.Source.
func (i inspection) UnknownPolicies() error {
	if i.unknownPolicies == nil {
		return nil
	}
	return i.unknownPolicies()
}

// policyListed is the document of a policy. Its texts are cut, because a selector may have a megabyte.
func policyListed(p *policy.Policy) inspect.Policy {
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
