package rule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// ParseSelector compiles a selector of label sets, as readers of metrics write it. The function is
// nil if the selector selects all.
type ParseSelector func(text string) (func(metric.Labels) bool, error)

// Rule is a compiled rule. Any goroutine may use it.
type Rule struct {
	Document Document
	operands []Operand
	value    *expression // nil: a rename
	rename   *renaming   // nil: an expression
	last     lastValue
}

// Operand is a pushed metric in an expression.
type Operand struct {
	Name     string // in the expression
	Metric   string // name[:stat][:window], as it is written in let
	Selector string // of label sets; empty: all
	metric   metric.Expression
	match    func(metric.Labels) bool // nil: all label sets
}

// Compile compiles a rule. The error has all faults, one a line.
func Compile(d Document, selector ParseSelector) (*Rule, error) {
	if d.Fault != "" {
		return nil, errors.New(d.Fault)
	}
	r := &Rule{Document: d}
	spec := &d.Spec
	if spec.Rename != nil {
		var faults []error
		if spec.Metric != "" || spec.Value != "" || len(spec.Let) > 0 || len(spec.Selectors) > 0 {
			faults = append(faults, errors.New("rename is set beside metric, let, selectors or value; must be one or the other"))
		}
		var more []error
		r.rename, more = compileRename(spec.Rename)
		return r, joinFaults(append(faults, more...))
	}
	faults := r.compileOperands(selector)
	if err := checkMetric("metric", spec.Metric); err != nil {
		faults = append(faults, err)
	}
	more := r.compileValue(len(faults) == 0)
	return r, joinFaults(append(faults, more...))
}

// compileOperands reads let and selectors.
func (r *Rule) compileOperands(selector ParseSelector) (faults []error) {
	spec := &r.Document.Spec
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, metric.TruncateArgs(args)...))
	}
	if n := len(spec.Let); n == 0 || n > maxOperands {
		fault("let has %d operands; must have 1 to %d, as in: busy: busy_workers", n, maxOperands)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Let)) {
		o := Operand{Name: name, Metric: spec.Let[name], Selector: spec.Selectors[name],
			metric: metric.ParseExpression(spec.Let[name])}
		switch {
		case len(name) > maxOperand || !identifier.MatchString(name):
			fault("let.%s: the name of an operand must be up to %d letters, digits and _, and begin with a letter or _",
				name, maxOperand)
		case slices.Contains(reserved, name):
			fault("let.%s: CEL reserves the name; must be another one", name)
		case o.metric.Name == "" || len(o.Metric) > maxMetric:
			fault("let.%s is %q; must be name[:stat][:window] of a pushed metric, of at most %d bytes",
				name, o.Metric, maxMetric)
		case strings.Contains(o.Metric, `\|`):
			fault(`let.%s is %q; must have "/" in the place of "\|", which stands for it in paths of the metrics APIs alone`, name, o.Metric)
		case metric.CheckName(o.metric.Name) != metric.Applied:
			fault("let.%s is %q, and no metric can be pushed with that name", name, o.Metric)
		}
		if o.metric.Name == spec.Metric && spec.Metric != "" {
			fault("let.%s is %q, which the rule itself computes; must be a pushed metric", name, o.Metric)
		}
		if err := o.setSelector(selector); err != nil {
			fault("selectors.%s: %v", name, err)
		}
		r.operands = append(r.operands, o)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Selectors)) {
		if _, is := spec.Let[name]; !is {
			fault("selectors.%s: let has no operand of that name", name)
		}
	}
	return faults
}

func (o *Operand) setSelector(parse ParseSelector) (err error) {
	switch {
	case o.Selector == "":
		return nil
	case len(o.Selector) > maxSelector:
		return fmt.Errorf("the selector has %d bytes; must have at most %d", len(o.Selector), maxSelector)
	}
	o.match, err = parse(o.Selector)
	return err
}

// compileValue compiles the expression. Operands whose names CEL rejects were reported before.
func (r *Rule) compileValue(operandsAreValid bool) []error {
	text := strings.TrimSpace(r.Document.Spec.Value)
	switch {
	case text == "":
		return []error{errors.New(`value is empty; must be an expression over the operands, as in: total > 0.0 ? busy / total : 0.0`)}
	case len(text) > maxExpression:
		return []error{fmt.Errorf("value has %d bytes; must have at most %d", len(text), maxExpression)}
	case !operandsAreValid:
		return nil
	}
	names := make([]string, len(r.operands))
	for i := range r.operands {
		names[i] = r.operands[i].Name
	}
	var faults []error
	r.value, faults = compileExpression(text, names)
	return faults
}

// Metric is the name that the rule computes; empty: it is a rename.
func (r *Rule) Metric() string { return r.Document.Spec.Metric }

// NewName is the name that a rename gives a pushed metric; not ok: the rule gives it none.
func (r *Rule) NewName(pushed string) (name string, ok bool) {
	if r.rename == nil {
		return "", false
	}
	return r.rename.New(pushed)
}

// Reads are the pushed metrics that the rule reads, as they are written.
func (r *Rule) Reads() (all []string) {
	for i := range r.operands {
		all = append(all, r.operands[i].Metric)
	}
	return all
}
