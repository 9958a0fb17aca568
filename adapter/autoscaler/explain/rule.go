package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Rule is the rule behind a metric, with its operands as they are answered now.
type Rule struct {
	inspect.Rule
	// Operands of a refused rule are not read. A rename has one, without a name in an expression.
	Operands []Operand
}

// Operand is a pushed metric that a rule reads. Without values, Fault is the error of the answer.
type Operand struct {
	inspect.RuleOperand
	Values []Value
	Fault  string
	Absent bool // the answer is that there is no value
}

// RuleReport is the rule behind a metric.
type RuleReport struct {
	Name       string `json:"name"`                 // as "metricrule/busy in shop"
	Expression string `json:"expression,omitempty"` // empty: a rename
	// Fault says why the rule is refused, or hidden by a pushed metric; empty: neither.
	Fault    string          `json:"fault,omitempty"`
	Refused  bool            `json:"refused,omitempty"`
	Operands []OperandReport `json:"operands,omitempty"`
	// Last is the newest value that a reader got from the replica that answers; nil: none.
	Last *ValueReport `json:"last,omitempty"`
}

// OperandReport is an operand with its values, or the reason why it has none.
type OperandReport struct {
	inspect.RuleOperand
	Values []ValueReport `json:"values,omitempty"`
	Fault  string        `json:"fault,omitempty"`
	Absent bool          `json:"absent,omitempty"` // it has no value; otherwise, a fault kept it from being read
}

// rule returns the rule behind a metric; nil: none is known.
func (f *Facts) rule(i int) *Rule {
	if i < len(f.Rules) {
		return f.Rules[i]
	}
	return nil
}

// operandAbsentOf returns the first operand of a metric's rule that other pods have and one has not;
// nil: there is none.
func (f *Facts) operandAbsentOf(m *inspect.AutoscalerMetric, pod string) *Operand {
	for i := range f.Rules {
		if f.Rules[i] == nil || &f.Autoscaler.Metrics[i] != m {
			continue
		}
		for n := range f.Rules[i].Operands {
			o := &f.Rules[i].Operands[n]
			if len(o.Values) > 0 && !slices.ContainsFunc(o.Values, func(v Value) bool { return v.Object == pod }) {
				return o
			}
		}
	}
	return nil
}

// title is the kind and name of the rule.
func (r *Rule) title() string {
	if r.Namespace == "" {
		return "clustermetricrule/" + r.Name
	}
	return "metricrule/" + r.Name + " in " + r.Namespace
}

func (r *Rule) report() *RuleReport {
	if r == nil {
		return nil
	}
	out := &RuleReport{Name: r.title(), Expression: r.Expression, Fault: r.Message, Refused: !r.Holds()}
	for _, o := range r.Operands {
		operandReport := OperandReport{RuleOperand: o.RuleOperand, Fault: o.Fault, Absent: o.Absent}
		for _, v := range o.Values {
			operandReport.Values = append(operandReport.Values, ValueReport{Of: v.Object, Value: v.Text, Time: v.Time})
		}
		out.Operands = append(out.Operands, operandReport)
	}
	if r.Value != "" {
		of := "an external metric"
		if r.Of.Resource != "" {
			of = r.Of.Resource + "/" + r.Of.Name
		}
		out.Last = &ValueReport{Of: of, Value: r.Value, Time: r.Time}
	}
	return out
}

// missing are the metrics of operands that have no series among the names of a namespace, or no value.
func (r *Rule) missing(here []string) (all []string) {
	if r == nil {
		return nil
	}
	for i := range r.Operands {
		o := &r.Operands[i]
		name := metric.BareName(o.Metric)
		unheard := len(o.Values) == 0 && !slices.Contains(here, name) // a renamed one has values and is not pushed
		if (o.Absent || unheard) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// without is the finding about a metric of a rule that has no value in a namespace.
func (r *Rule) without(namespace string, reading *Reading, out *Finding) {
	out.Cause = NeverPushed
	if !r.Holds() {
		kind, _, _ := strings.Cut(r.title(), "/")
		out.Text = fmt.Sprintf("%s, which computes %s, is refused (%s): %s", r.title(), metric.BareName(out.Metric),
			r.State, r.Message)
		out.Remedy = []string{"kubectl edit " + kind + inNamespaceFlag(r.Namespace) + " " + r.Name}
		return
	}
	var absent []string
	for _, o := range r.Operands {
		if o.Absent {
			absent = append(absent, fmt.Sprintf("%s (%s)", cmp.Or(o.Name, o.Metric), o.Fault))
			out.Remedy = append(out.Remedy, "sluice explain"+inNamespaceFlag(namespace)+" "+Word(metric.BareName(o.Metric)))
		}
	}
	out.Text = fmt.Sprintf("%s is the metric of %s, which has no value: %s", metric.BareName(out.Metric),
		r.title(), reading.Fault)
	if len(absent) > 0 {
		out.Text = fmt.Sprintf("%s is the metric of %s. Absent operands: %s", metric.BareName(out.Metric), r.title(),
			strings.Join(absent, ", "))
	}
}

// mostOperandValues bounds the printed values of an operand.
const mostOperandValues = 5

// rule prints the rule behind an autoscaler's metric, with a line for each operand.
func (p *printer) rule(r *RuleReport) {
	switch {
	case r == nil:
		return
	case r.Refused:
		p.line("  %s is refused: %s", r.Name, r.Fault)
		return
	case r.Expression == "":
		p.line("  renamed by %s", r.Name)
	default:
		p.line("  computed by %s: %s", r.Name, r.Expression)
	}
	if r.Fault != "" {
		p.line("    %s", r.Fault)
	}
	for i := range r.Operands {
		p.line("    %s", r.Operands[i].text())
	}
}

// ruleOfName prints the rule that computes a name.
func (p *printer) ruleOfName(r *NameReport) {
	var reads []string
	for _, o := range r.Rule.Operands {
		if !slices.Contains(reads, o.Metric) {
			reads = append(reads, o.Metric)
		}
	}
	switch ruleReport := r.Rule; {
	case ruleReport.Refused:
		p.line("%s would be computed by %s, which is refused: %s", r.Name, ruleReport.Name, ruleReport.Fault)
	case ruleReport.Expression == "":
		p.line("%s is a name that %s gives to %s", r.Name, ruleReport.Name, strings.Join(reads, ", "))
	default:
		p.line("%s is computed by %s: %s", r.Name, ruleReport.Name, ruleReport.Expression)
		p.line("  from %s", strings.Join(reads, ", "))
		p.line("  read as %s, without a stat and a window", r.Name)
	}
	if len(r.Missing) > 0 {
		p.line("  no value, because these have no series in %s: %s", r.Namespace, strings.Join(r.Missing, ", "))
	}
	for i := range r.Rule.Operands {
		p.line("  %s", r.Rule.Operands[i].text())
	}
	if last := r.Rule.Last; last != nil {
		p.line("  last value, of the replica that answers: %s of %s, %s ago", last.Value, last.Of, age(p.now.Sub(last.Time)))
	}
	if len(r.Metrics) > 0 {
		p.line("  A metric of that name is pushed, and answers where it exists:")
	}
}

// text is the operand in a line: "busy = busy_workers: 3 (web-1), 2 (web-2)".
func (o *OperandReport) text() string {
	text := o.Metric
	if o.Name != "" {
		text = o.Name + " = " + text
	}
	if o.Selector != "" {
		text += " with " + o.Selector
	}
	switch {
	case o.Absent:
		return text + ": absent: " + o.Fault
	case len(o.Values) == 0:
		return text + ": unknown: " + o.Fault
	}
	var values []string
	for _, v := range o.Values[:min(len(o.Values), mostOperandValues)] {
		one := v.Value
		if v.Of != "" {
			one += " (" + v.Of + ")"
		}
		values = append(values, one)
	}
	if left := len(o.Values) - len(values); left > 0 {
		values = append(values, fmt.Sprintf("and %d more", left))
	}
	return text + ": " + strings.Join(values, ", ")
}

func inNamespaceFlag(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}
