package inspect

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
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

// Readable says which values of external metrics one reader may have.
type Readable interface {
	// MayReadAll reports whether the reader may ask for all series of a metric, name[:stat][:window].
	MayReadAll(namespace, expression string) bool
	// MayHave reports whether the reader may have one series of a metric, name[:stat][:window]. label
	// returns the value of a label as selectors spell it.
	MayHave(namespace, expression string, label func(key string) (string, bool)) bool
	// Unrestricted reports whether the reader may have every series of a namespace.
	Unrestricted(namespace string) bool
}

// Restrict returns a source that leaves out the values that a reader may not have. Names and numbers of
// series stay. The values of autoscalers are those that their controller gets: it says them in their
// statuses, too.
func Restrict(source Source, to Readable) Source { return restricted{source, to} }

type restricted struct {
	Source
	to Readable
}

// Metrics implements Source.
func (r restricted) Metrics(q Query) Page[Metric] {
	page := r.Source.Metrics(q)
	HideValues(page.Items, r.to, r.Source.Series)
	return page
}

// HideValues drops the values of metrics that a reader may not have. A metric has a value if it has a
// single series, which the function series finds.
func HideValues(all []Metric, to Readable, series func(namespace, resource, name string, limit int) []Series) {
	for i := range all {
		m := &all[i]
		if m.Value != "" && m.Resource == "" && !to.MayReadAll(m.Namespace, m.Name) &&
			len(readableSeries(to, m.Namespace, m.Name, series(m.Namespace, "", m.Name, 1))) == 0 {
			m.Value = ""
		}
	}
}

// Value implements Source.
func (r restricted) Value(namespace, resource, name string) (v float64, objects int) {
	if _, err := metric.AskedExpression(name); err != nil || resource == "" && !r.to.MayReadAll(namespace, name) {
		return 0, 0
	}
	return r.Source.Value(namespace, resource, name)
}

// Series implements Source.
func (r restricted) Series(namespace, resource, name string, limit int) []Series {
	all := r.Source.Series(namespace, resource, name, limit)
	if resource != "" {
		return all
	}
	return readableSeries(r.to, namespace, name, all)
}

func readableSeries(to Readable, namespace, name string, all []Series) []Series {
	return slices.DeleteFunc(all, func(series Series) bool {
		set := make([]metric.Label, 0, len(series.Labels))
		for key, value := range series.Labels {
			set = append(set, metric.Label{Key: key, Value: value})
		}
		return !to.MayHave(namespace, name, metric.NewLabels(set).Selectable())
	})
}

// Rules implements Source.
func (r restricted) Rules(q Query) Page[Rule] {
	page := r.Source.Rules(q)
	for i := range page.Items {
		if rule := &page.Items[i]; rule.Value != "" && !rule.MayShowValue(r.to) {
			rule.Value, rule.Of, rule.Time = "", Reference{}, time.Time{}
		}
	}
	return page
}

// MayShowValue reports whether a reader may have the last value of a rule, whichever series it was
// computed of. Of a rename the names of the metric are unknown.
func (r *Rule) MayShowValue(to Readable) bool {
	if r.Of.Resource != "" {
		return true
	}
	if r.Expression == "" {
		return to.Unrestricted(r.Asked)
	}
	read := append([]string{r.Metric}, r.Renamed...)
	for _, o := range r.Operands {
		read = append(read, o.Metric)
	}
	return !slices.ContainsFunc(read, func(expression string) bool { return !to.MayReadAll(r.Asked, expression) })
}
