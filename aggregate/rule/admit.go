package rule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Verdict says whether a rule holds.
type Verdict struct {
	Document *Document
	Rule     *Rule // nil: it is refused
	Reason   Reason
	Fault    string // empty: it holds
}

// Reason says in one word why a rule is refused.
type Reason string

// The reasons.
const (
	Accepted Reason = "Accepted"
	Invalid  Reason = "Invalid"      // it does not compile
	Conflict Reason = "Conflict"     // an older rule has the metric
	OfRules  Reason = "RuleOfRules"  // an operand is the metric of a rule
	TooMany  Reason = "TooManyRules" // the namespace has too many
)

// Bounds of the rules of a namespace, and of those of the cluster.
const (
	maxRules   = 200
	maxRenames = 16
	maxInvalid = 1000 // they take time to compile, too
)

// maxFault bounds a fault, which is kept and is in the status.
const maxFault = 1024 // bytes

// NewSet compiles documents and checks them against each other. It keeps compiled rules of before,
// which may be nil, if their documents did not change.
//
// The cluster's rules are admitted first, then those of namespaces, the oldest first. Each is checked
// against the rules that hold already. So of two rules that exclude each other the younger one is
// refused, and no rule ends because somebody wrote another; a refused rule refuses none.
func NewSet(documents []Document, selector ParseSelector, before *Set) *Set {
	documents = slices.Clone(documents)
	slices.SortStableFunc(documents, func(a, b Document) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name)*sign(!a.Created.IsZero()))
	})
	a := admission{
		Set: &Set{named: map[place]*Rule{}, renames: map[string][]*Rule{}, readBy: map[place][]*Rule{},
			verdicts: make([]Verdict, len(documents)), compiled: map[place]compilation{}},
		selector: selector, numbers: map[string]int{}, invalid: map[string]int{},
	}
	if before != nil {
		a.old = before.compiled
	}
	for _, ofCluster := range []bool{true, false} {
		for i := range documents {
			if d := &documents[i]; (d.Namespace == "") == ofCluster {
				a.verdicts[i] = a.admit(d)
			}
		}
	}
	return a.Set
}

// sign is 1 or 0: rules of a file keep the order of the file.
func sign(is bool) int {
	if is {
		return 1
	}
	return 0
}

// compilation is what became of a document by itself. It is kept for those that are refused, too: a namespace may have
// any number of them, and each change of any rule has all documents looked at.
type compilation struct {
	document *Document
	rule     *Rule // nil: it has a fault
	fault    string
}

// admission fills a set.
type admission struct {
	*Set
	selector ParseSelector
	old      map[place]compilation
	numbers  map[string]int // of valid rules, by namespace
	invalid  map[string]int // of invalid ones that were compiled
}

// admit decides about a document. If its rule holds, it is entered.
func (a *admission) admit(d *Document) Verdict {
	if a.numbers[d.Namespace] == maxRules {
		return Verdict{Document: d, Reason: TooMany,
			Fault: fmt.Sprintf("%s has %d older rules, which is the limit", scope(d.Namespace), maxRules)}
	}
	if a.invalid[d.Namespace] == maxInvalid {
		return Verdict{Document: d, Reason: TooMany,
			Fault: fmt.Sprintf("%s has %d older rules that are invalid, which is the limit", scope(d.Namespace), maxInvalid)}
	}
	if d.Spec.Rename != nil && len(a.renames[d.Namespace]) == maxRenames {
		return Verdict{Document: d, Reason: TooMany,
			Fault: fmt.Sprintf("%s has %d older rules that rename, which is the limit", scope(d.Namespace), maxRenames)}
	}
	c := a.compile(d)
	if c.fault != "" {
		if d.Fault == "" { // otherwise it was not compiled
			a.invalid[d.Namespace]++
		}
		return Verdict{Document: d, Reason: Invalid, Fault: c.fault}
	}
	a.numbers[d.Namespace]++
	if why, fault := a.excluded(d, c.rule); fault != "" {
		return Verdict{Document: d, Reason: why, Fault: fault}
	}
	a.enter(c.rule)
	return Verdict{Document: d, Rule: c.rule, Reason: Accepted}
}

// compile compiles a document, unless it is the one of before.
func (a *admission) compile(d *Document) compilation {
	at := place{d.Namespace, d.Name}
	c, is := a.old[at]
	if !is || !c.document.same(d) {
		c = compilation{document: d}
		var err error
		if c.rule, err = Compile(*d, a.selector); err != nil {
			c.rule, c.fault = nil, metric.Truncate(oneLine(err), maxFault)
		}
	}
	a.compiled[at] = c
	return c
}

// excluded says why a rule cannot hold beside those that hold; the fault is empty if it can.
func (a *admission) excluded(d *Document, r *Rule) (why Reason, fault string) {
	if r.rename != nil {
		return Accepted, ""
	}
	if first := a.named[place{d.Namespace, r.Metric()}]; first != nil {
		return Conflict, fmt.Sprintf("the metric %q is computed by %s, which is older; must be another metric",
			r.Metric(), &first.Document)
	}
	for i := range r.operands {
		o := &r.operands[i]
		if rule := a.at(d.Namespace, o.metric.Name); rule != nil {
			return OfRules, fmt.Sprintf("let.%s is %q, which %s computes; must be a pushed metric: there are no rules of rules, so repeat its expression here",
				o.Name, o.Metric, &rule.Document)
		}
	}
	if of := a.readBy[place{d.Namespace, r.Metric()}]; len(of) > 0 {
		return OfRules, fmt.Sprintf("the metric %q is an operand of %s, which is older; must be another metric: there are no rules of rules",
			r.Metric(), &of[0].Document)
	}
	return Accepted, ""
}

// enter adds a rule that holds.
func (a *admission) enter(r *Rule) {
	in := r.Document.Namespace
	if r.rename != nil {
		a.renames[in] = append(a.renames[in], r)
		return
	}
	a.named[place{in, r.Metric()}] = r
	for i := range r.operands {
		key := place{in, r.operands[i].metric.Name}
		if !slices.Contains(a.readBy[key], r) {
			a.readBy[key] = append(a.readBy[key], r)
		}
	}
}

// same reports whether a document compiles to the same rule.
func (d *Document) same(other *Document) bool {
	if d.UID != other.UID || d.Fault != other.Fault {
		return false
	}
	if d.UID != "" {
		return d.Generation == other.Generation
	}
	return fmt.Sprintf("%+v", d.Spec.flat()) == fmt.Sprintf("%+v", other.Spec.flat())
}

// flat is the spec without pointers, for comparing.
func (s *Spec) flat() any {
	renames := Rename{}
	if s.Rename != nil {
		renames = *s.Rename
	}
	return []any{s.Metric, s.Let, s.Selectors, s.Value, s.Rename != nil, renames}
}

func scope(namespace string) string {
	if namespace == "" {
		return "the cluster"
	}
	return fmt.Sprintf("the namespace %q", metric.Truncate(namespace, maxName))
}

// mostFaults is the number of faults that an error names.
const mostFaults = 10

// joinFaults joins faults, one a line: the first ones, and how many more there are.
func joinFaults(faults []error) error {
	if more := len(faults) - mostFaults; more > 0 {
		faults = append(faults[:mostFaults:mostFaults], fmt.Errorf("and %d more", more))
	}
	return errors.Join(faults...)
}

// oneLine is an error of several lines in one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Faults joins the faults of all rules, for files; nil: there are none. It names the first ones, and
// those of too many rules once for each namespace.
func (s *Set) Faults() error {
	var faults []error
	tooMany := map[string]int{}
	for _, v := range s.Verdicts() {
		if v.Reason == TooMany {
			tooMany[v.Document.Namespace]++
		}
	}
	for _, v := range s.Verdicts() {
		in := v.Document.Namespace
		switch more := tooMany[in] - 1; {
		case v.Fault == "":
		case v.Reason != TooMany || more == 0:
			faults = append(faults, fmt.Errorf("%s: %s", v.Document, v.Fault))
		case more > 0:
			faults = append(faults, fmt.Errorf("%s and %d more rules: %s", v.Document, more, v.Fault))
			delete(tooMany, in)
		}
	}
	return joinFaults(faults)
}
