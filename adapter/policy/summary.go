package policy

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
