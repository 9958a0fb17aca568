package inspect

import (
	"strconv"
	"strings"
	"time"
)

// Policy is an ExternalMetricPolicy or a ClusterExternalMetricPolicy, as it is in force.
type Policy struct {
	Namespace string `json:"namespace,omitempty"` // empty: it holds in all
	Name      string `json:"name"`
	// Subjects are the first readers that the policy is for, as "Group:shop" or
	// "ServiceAccount:shop:robot"; at most PolicySubjects of SubjectCount. Empty: it is for all.
	Subjects     []string `json:"subjects,omitempty"`
	SubjectCount int      `json:"subjectCount,omitempty"`
	// Rules are applied from the top.
	Rules []PolicyRule `json:"rules"`
	// State is PolicyAccepted or PolicyFaulty.
	State string `json:"state"`
	// Faults are those of the spec, by field; each is cut after PolicyText bytes.
	Faults []string `json:"faults,omitempty"`
}

// PolicyRule is a rule of a Policy. A rule with a fault denies the metrics that it matches.
type PolicyRule struct {
	Metric string `json:"metric"` // the expression; empty: the rule matches every metric
	Deny   bool   `json:"deny,omitempty"`
	// Selector is a label selector as kubectl writes one; empty: the rule denies. It is cut
	// after PolicyText bytes.
	Selector string `json:"selector,omitempty"`
	Fault    string `json:"fault,omitempty"`
}

// States of a policy.
const (
	PolicyAccepted = "Accepted"
	PolicyFaulty   = "Faulty"
)

// Bounds of a Policy.
const (
	PolicySubjects = 8
	PolicyText     = 256
)

func (p *Policy) Meta() Meta    { return Meta{p.Name, p.Namespace} }
func (p *Policy) Fault() string { return strings.Join(p.Faults, "; ") }

func (p *Policy) Cells(time.Time) []string {
	rules := make([]string, len(p.Rules))
	for i := range p.Rules {
		rules[i] = p.Rules[i].text()
	}
	return []string{p.Name, p.Readers(), strconv.Itoa(len(p.Rules)), p.State, orNone(strings.Join(rules, "; "))}
}

// Readers are the subjects in short: "Group:shop, User:jane and 3 more", or "all".
func (p *Policy) Readers() string {
	if p.SubjectCount == 0 {
		return "all"
	}
	return some(p.Subjects, p.SubjectCount)
}

// text is the rule in short: "secret[.].*: deny".
func (r *PolicyRule) text() string {
	name := r.Metric
	if name == "" {
		name = "every metric"
	}
	return name + ": " + r.Effect()
}

// Effect is the rule's answer to a request: "deny", "allow", or the selector that it must stay within.
func (r *PolicyRule) Effect() string {
	switch {
	case r.Fault != "":
		return "deny (fault)"
	case r.Deny:
		return "deny"
	case r.Selector == "":
		return "allow" // every selector is within the empty one
	}
	return "within " + r.Selector
}
