package policy

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/sluice-metrics/sluice/internal/pattern"
	"github.com/sluice-metrics/sluice/metric"
)

// Limits of a policy. Kubernetes checks the first three when a policy is written.
const (
	maxRules      = 64
	maxPattern    = 128 // bytes
	maxSubjects   = 64
	maxPatternRun = 500 // instructions of a compiled pattern: "(a{100}){10}" is short and large
)

// Meta names a policy.
type Meta struct {
	Namespace, Name string // a cluster's policy has no namespace
	Created         time.Time
}

// A Policy is a compiled policy. It is immutable.
type Policy struct {
	Meta
	// Faults of the spec, by field. A rule with a fault denies the metrics that it matches, and all
	// if its expression cannot be read.
	Faults   []string
	subjects []Subject
	rules    []rule
	size     int64
	work     int   // instructions of all expressions
	labels   int   // that selectors name, of each rule
	compiled int   // see Compiled
	lacks    lacks // of a policy WithoutRoom, or Uncompiled
}

// lacks is what there was no room for.
type lacks struct {
	bytes int64
	rules int
}

type rule struct {
	metric  string         // the expression as it was written
	pattern *regexp.Regexp // nil: cannot be read, matches everything
	anyCase *regexp.Regexp // pattern, in upper and lower case
	fault   string
	deny    bool
	allowed constraint
	text    string // of the selector
}

// Compile compiles a spec. It never fails: a policy with faults denies instead of opening.
func Compile(meta Meta, spec Spec) *Policy {
	p := &Policy{Meta: meta, subjects: spec.Subjects, size: policyBytes}
	if len(spec.Rules) == 0 { // perhaps the field is misspelt
		return p.closed("rules", "is empty; must have 1 to %d rules", maxRules)
	}
	if len(spec.Rules) > maxRules {
		return p.closed("rules", "has %d rules; must have at most %d", len(spec.Rules), maxRules)
	}
	p.checkSubjects()
	p.compiled = len(spec.Rules)
	for i, r := range spec.Rules {
		p.rules = append(p.rules, p.compile(fmt.Sprintf("rules[%d]", i), r))
	}
	return p
}

// WithoutRoom is the policy without what it takes memory for. It denies everything to everybody.
func (p *Policy) WithoutRoom() *Policy {
	out := (&Policy{Meta: p.Meta}).closed("spec",
		"takes %d KiB of memory, and the policies of its namespace leave no room for it; must be fewer or smaller", p.size>>10)
	out.size, out.compiled, out.lacks.bytes = 0, p.compiled, p.size
	return out
}

// Uncompiled is a policy of some rules beside so many that it counts for nothing, and was not compiled. It denies
// everything to everybody.
func Uncompiled(meta Meta, rules int) *Policy {
	out := (&Policy{Meta: meta}).closed("rules",
		"are %d, more than %d together with those of the namespace's other policies; must be fewer", rules, MaxRulesTogether)
	out.size, out.lacks.rules = 0, rules
	return out
}

// Unreadable is a policy whose spec could not be decoded. It denies everything to everybody.
func Unreadable(meta Meta, err error) *Policy {
	out := (&Policy{Meta: meta}).closed("spec", "cannot be read: %s", metric.Truncate(err.Error(), metric.MaxQuoted))
	out.size = 0 // nobody takes room for it
	return out
}

// String is the policy's kind and name, as kubectl takes them.
func (p *Policy) String() string {
	if p.Namespace == "" {
		return "clusterexternalmetricpolicy/" + p.Name
	}
	return "externalmetricpolicy/" + p.Name + " in the namespace " + p.Namespace
}

func (p *Policy) fault(field, format string, args ...any) string {
	text := unique.Make(field + " " + fmt.Sprintf(format, args...)).Value() // many policies have the same
	p.size += int64(len(text))
	p.Faults = append(p.Faults, text)
	return text
}

// closed is the policy with a fault for which it denies every metric to everybody.
func (p *Policy) closed(field, format string, args ...any) *Policy {
	out := &Policy{Meta: p.Meta, Faults: slices.Clone(p.Faults), size: policyBytes}
	out.rules = []rule{{fault: out.fault(field, format, args...)}}
	return out
}

// checkSubjects makes a policy with a faulty subject one for all readers.
func (p *Policy) checkSubjects() {
	for _, s := range p.subjects {
		p.size += s.bytes()
	}
	if len(p.subjects) > maxSubjects {
		p.fault("subjects", "has %d subjects; must have at most %d", len(p.subjects), maxSubjects)
		p.subjects = nil
		return
	}
	for i, s := range p.subjects {
		field := fmt.Sprintf("subjects[%d]", i)
		switch {
		case s.Kind != "User" && s.Kind != "Group" && s.Kind != "ServiceAccount":
			p.fault(field+".kind", "is %q; must be User, Group or ServiceAccount", s.Kind)
		case s.Name == "":
			p.fault(field+".name", "is empty; must name the %s", s.Kind)
		case s.Kind == "ServiceAccount" && s.Namespace == "":
			p.fault(field+".namespace", "is empty; must name the namespace of the ServiceAccount")
		default:
			continue
		}
		p.subjects = nil
		return
	}
}

func (p *Policy) compile(field string, r Rule) rule {
	out := rule{metric: r.Metric, deny: r.Deny}
	if out.pattern, out.fault = p.pattern(field+".metric", r.Metric); out.pattern != nil {
		out.anyCase, _ = regexp.Compile("(?i)" + out.pattern.String()) // nil, if it is too large
	}
	switch {
	case out.fault != "":
	case r.Deny && r.Selector != nil:
		out.fault = p.fault(field, "has a selector and deny; must have one of them")
	case !r.Deny && r.Selector == nil:
		out.fault = p.fault(field, "has neither a selector nor deny: true; must have one of them")
	case r.Selector != nil:
		out.fault = p.checkSelector(field+".selector", r.Selector)
		out.allowed, out.text = constraintOf(r.Selector.requirements()), r.Selector.String()
		p.size, p.labels = p.size+r.Selector.bytes(), p.labels+len(out.allowed)
	}
	p.size += ruleBytes
	return out
}

func (p *Policy) pattern(field, text string) (*regexp.Regexp, string) {
	if text == "" || len(text) > maxPattern {
		return nil, p.fault(field, "has %d bytes; must have 1 to %d", len(text), maxPattern)
	}
	bytes, instructions, fault := p.measure(field, text)
	if fault != "" {
		return nil, fault
	}
	if p.size+bytes > maxPolicy {
		return nil, p.fault(field,
			"is %q, with which the policy takes more than %d MiB of memory; must have shorter or fewer expressions", text, maxPolicy>>20)
	}
	p.size, p.work = p.size+bytes, p.work+instructions
	whole, err := regexp.Compile("^(?:" + text + ")$")
	if err != nil { // a quotation that does not end, as in \Qa.b
		return nil, p.fault(field, "is %q; must be an RE2 expression that ends: %v", text, err)
	}
	return whole, ""
}

// measure returns what an expression takes, by itself and in upper and lower case, before it is compiled.
func (p *Policy) measure(field, text string) (bytes int64, instructions int, fault string) {
	// An expression by itself: "a)|(b" is none, though it would be within brackets.
	parsed, err := pattern.Parse(text)
	if err != nil {
		return 0, 0, p.fault(field, "is %q; must be an RE2 expression: %v", text, err)
	}
	anyCase, err := syntax.Parse("(?i)"+text, syntax.Perl)
	large := err != nil || pattern.Instructions(parsed) > 4*maxPatternRun // up to three times as many as there are
	for _, parsed := range []*syntax.Regexp{parsed, anyCase} {
		if large {
			break
		}
		program, err := syntax.Compile(parsed.Simplify())
		if large = err != nil || len(program.Inst) > maxPatternRun; !large {
			bytes, instructions = bytes+pattern.Bytes(program), len(program.Inst)
		}
	}
	if large {
		fault = p.fault(field, "is %q, which repeats too much; must have at most %d instructions", text, maxPatternRun)
	}
	return bytes, instructions, fault
}

func (p *Policy) checkSelector(field string, s *Selector) string {
	for i, r := range s.MatchExpressions {
		at := fmt.Sprintf("%s.matchExpressions[%d]", field, i)
		switch r.Operator {
		case In, NotIn:
			if len(r.Values) == 0 {
				return p.fault(at+".values", "is empty; must have a value for the operator %s", r.Operator)
			}
		case Exists, DoesNotExist:
			if len(r.Values) > 0 {
				return p.fault(at+".values", "has %d values; must be empty for the operator %s", len(r.Values), r.Operator)
			}
		default:
			return p.fault(at+".operator", "is %q; must be In, NotIn, Exists or DoesNotExist", string(r.Operator))
		}
	}
	for _, r := range s.requirements() {
		for _, value := range r.Values {
			if metric.SelectorValue(value) != value {
				return p.fault(field, "has the value %q, which no selector can have; must be %q", value,
					metric.SelectorValue(value))
			}
		}
	}
	return ""
}

// String is the selector as kubectl writes one.
func (s *Selector) String() string {
	var parts []string
	for _, r := range s.requirements() {
		list := strings.Join(r.Values, ",")
		switch {
		case r.Operator == In && len(r.Values) == 1:
			parts = append(parts, r.Key+"="+list)
		case r.Operator == In:
			parts = append(parts, r.Key+" in ("+list+")")
		case r.Operator == NotIn:
			parts = append(parts, r.Key+" notin ("+list+")")
		case r.Operator == Exists:
			parts = append(parts, r.Key)
		default:
			parts = append(parts, "!"+r.Key)
		}
	}
	return strings.Join(parts, ",")
}

// constraint is what a selector requires of each label. Labels that it doesn't name may have any
// value.
type constraint map[string]*values

// constraintOf is the conjunction of requirements.
func constraintOf(requirements []Requirement) constraint {
	c := constraint{}
	for _, r := range requirements {
		if c[r.Key] == nil {
			some := anyValues()
			c[r.Key] = &some
		}
		c[r.Key].and(r)
	}
	return c
}

// empty reports that no label set satisfies the constraint.
func (c constraint) empty() bool {
	for _, v := range c {
		if v.empty() {
			return true
		}
	}
	return false
}

// within reports whether each label set that satisfies the constraint satisfies the other one too.
// Labels are independent of each other, so it is decided for each by itself.
func (c constraint) within(other constraint) bool {
	if c.empty() {
		return true
	}
	for key, theirs := range other {
		mine := c[key]
		if mine == nil {
			all := anyValues()
			mine = &all
		}
		if !mine.within(theirs) {
			return false
		}
	}
	return true
}

// has reports whether a label set satisfies the constraint. lookup returns a label's value as
// selectors spell it.
func (c constraint) has(lookup func(key string) (string, bool)) bool {
	for key, v := range c {
		value, ok := lookup(key)
		if ok && !v.has(value) || !ok && !v.absent {
			return false
		}
	}
	return true
}
