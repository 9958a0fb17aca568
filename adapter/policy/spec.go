package policy

import (
	"maps"
	"slices"
)

// Spec is the spec of an ExternalMetricPolicy or a ClusterExternalMetricPolicy.
type Spec struct {
	// Subjects are the readers that the policy is for. Empty: all.
	Subjects []Subject `json:"subjects,omitempty"`
	// Rules are applied from the top; the first one that matches a metric decides. A metric that
	// none matches is allowed.
	Rules []Rule `json:"rules"`
}

// Subject is a reader, in the words of RBAC.
type Subject struct {
	Kind      string `json:"kind"` // User, Group or ServiceAccount
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"` // of a ServiceAccount
}

// Rule has either a selector or Deny.
type Rule struct {
	// Metric is an RE2 expression of at most 128 bytes that matches whole names: the bare name, or
	// name:stat:window.
	Metric string `json:"metric"`
	// Selector must select whatever the reader's selector selects.
	Selector *Selector `json:"selector,omitempty"`
	Deny     bool      `json:"deny,omitempty"`
}

// Selector is a Kubernetes label selector, of the metric's label sets.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []Requirement     `json:"matchExpressions,omitempty"`
}

// Requirement is one requirement of a label selector.
type Requirement struct {
	Key      string   `json:"key"`
	Operator Operator `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Operator relates a key to values.
type Operator string

// The operators of a Kubernetes label selector. A policy has the first four; GreaterThan and
// LessThan are known to requests only.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	GreaterThan  Operator = "Gt"
	LessThan     Operator = "Lt"
)

// requirements are all of the selector, those of MatchLabels first and sorted by key.
func (s *Selector) requirements() []Requirement {
	var all []Requirement
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all = append(all, Requirement{key, In, []string{s.MatchLabels[key]}})
	}
	return append(all, s.MatchExpressions...)
}

// RuleSummary is a rule as lists show it.
type RuleSummary struct {
	Metric   string // the expression; empty: the rule matches every metric
	Deny     bool
	Selector string // as kubectl writes one
	Fault    string // empty: the rule is as its author wrote it
}

// Subjects are the readers that the policy is for; empty: all.
func (p *Policy) Subjects() []Subject { return p.subjects }

// Rules summarizes the rules in force, from the top.
func (p *Policy) Rules() []RuleSummary {
	all := make([]RuleSummary, len(p.rules))
	for i := range p.rules {
		r := &p.rules[i]
		all[i] = RuleSummary{Deny: r.deny, Selector: r.text, Fault: r.fault}
		if r.pattern != nil {
			all[i].Metric = r.metric
		}
	}
	return all
}

// String is the subject in short: "User:jane" or "ServiceAccount:shop:robot".
func (s Subject) String() string {
	if s.Namespace != "" {
		return s.Kind + ":" + s.Namespace + ":" + s.Name
	}
	return s.Kind + ":" + s.Name
}
