package explain

import "github.com/sluice-metrics/sluice/adapter/inspect"

// busyRule computes busy_ratio of shop from two operands that have values.
func busyRule() *Rule {
	return &Rule{
		Rule: inspect.Rule{Namespace: "shop", Name: "busy", Metric: "busy_ratio", From: []string{"busy_workers", "total_workers:last"},
			Expression: "total > 0.0 ? busy / total : 0.0", State: inspect.RuleAccepted},
		Operands: []Operand{
			{RuleOperand: inspect.RuleOperand{Name: "busy", Metric: "busy_workers"},
				Values: []Value{value("web-1", 3), value("web-2", 2), value("web-3", 2)}},
			{RuleOperand: inspect.RuleOperand{Name: "total", Metric: "total_workers:last", Selector: "zone=a"},
				Values: []Value{value("web-1", 4), value("web-2", 4), value("web-3", 4)}},
		},
	}
}
