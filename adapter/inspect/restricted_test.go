package inspect

import (
	"slices"
	"testing"
)

// readable are the external metrics that a reader may read.
type readable []string

func (r readable) MayReadAll(_, expression string) bool                         { return slices.Contains(r, expression) }
func (r readable) MayHave(string, string, func(key string) (string, bool)) bool { return false }
func (r readable) Unrestricted(string) bool                                     { return false }

// The value of a rule of external metrics is shown to those who may read the rule's metric and all
// operands.
func TestValuesOfRulesNeedLeaveForAllOperands(t *testing.T) {
	external := Rule{Metric: "ratio", Expression: "a / b", Operands: []RuleOperand{{Metric: "a"}, {Metric: "b"}}}
	ofPods, renamed := external, Rule{Metric: "new"}
	ofPods.Of.Resource = "pods"
	behind := external
	behind.Renamed = []string{"pushed_a"}
	for _, c := range []struct {
		rule Rule
		may  readable
		want bool
	}{
		{external, readable{"ratio", "a", "b"}, true}, {external, readable{"ratio", "a"}, false}, {external, readable{"a", "b"}, false},
		{ofPods, nil, true}, {renamed, readable{"new"}, false},
		{behind, readable{"ratio", "a", "b"}, false}, {behind, readable{"ratio", "a", "b", "pushed_a"}, true},
	} {
		if got := c.rule.MayShowValue(c.may); got != c.want {
			t.Errorf("%+v to a reader of %v: %v, want %v", c.rule, c.may, got, c.want)
		}
	}
}
