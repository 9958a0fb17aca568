package console

import (
	"context"
	"slices"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// rulesContent is the page of rules and policies.
type rulesContent struct {
	Namespace string
	Cluster   bool
	Rules     []inspect.Rule
	// Refused is how many of the rules don't hold, and Faulty how many of the policies have faults.
	Refused, Faulty int
	First, Next     string
	// PoliciesUnknown says why the policies are unknown. Empty: they are known.
	PoliciesUnknown string
	Policies        []policyRow
	MorePolicies    bool
}

// policyRow is a policy with its first rules and faults, and how many more there are.
type policyRow struct {
	inspect.Policy
	MoreRules, MoreFaults int
}

// Bounds of a row: 200 whole policies would be megabytes.
const (
	rowRules  = 10
	rowFaults = 3
)

func (s *Server) rules(_ context.Context, r *request) (any, error) {
	c := &rulesContent{Namespace: r.query.Get("namespace"), Cluster: s.parts.Target != nil}
	q := inspect.Query{Namespace: c.Namespace, Most: pageSize}
	var err error
	if q.After, err = r.keyOf("rules"); err != nil {
		return nil, err
	}
	page := r.source.Rules(q)
	c.Rules, c.Next = page.Items, r.next("rules", "rules", page.Next)
	if q.After != (inspect.Key{}) {
		c.First = address("rules", "namespace", c.Namespace)
	}
	for i := range c.Rules {
		if !c.Rules[i].Holds() {
			c.Refused++
		}
	}
	if err := r.source.UnknownPolicies(); err != nil {
		c.PoliciesUnknown = err.Error()
		return c, nil
	}
	policies := r.source.Policies(inspect.Query{Namespace: c.Namespace, Most: pageSize})
	c.MorePolicies = policies.Next != (inspect.Key{})
	for _, one := range policies.Items {
		c.Policies = append(c.Policies, policyRowOf(one))
	}
	c.Faulty = len(slices.DeleteFunc(slices.Clone(c.Policies), func(p policyRow) bool { return len(p.Faults) == 0 }))
	return c, nil
}

func policyRowOf(one inspect.Policy) policyRow {
	row := policyRow{Policy: one, MoreRules: max(0, len(one.Rules)-rowRules), MoreFaults: max(0, len(one.Faults)-rowFaults)}
	row.Rules = one.Rules[:len(one.Rules)-row.MoreRules]
	row.Faults = one.Faults[:len(one.Faults)-row.MoreFaults]
	return row
}
