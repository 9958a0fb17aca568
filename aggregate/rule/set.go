package rule

import (
	"slices"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
)

// Set holds the rules of a process. It never changes, and any goroutine may use it; the nil Set has
// no rules.
type Set struct {
	named    map[place]*Rule
	renames  map[string][]*Rule // by namespace
	readBy   map[place][]*Rule  // by an operand's bare name, which a rename may have given; expressions only
	verdicts []Verdict
	compiled map[place]compilation
}

// place is a name in a namespace; the empty namespace is that of cluster rules.
type place struct{ namespace, name string }

// at returns the rule that computes a metric for a namespace. Its own rules come before those of
// the cluster.
func (s *Set) at(namespace, name string) *Rule {
	if s == nil || len(s.named) == 0 {
		return nil
	}
	if namespace != "" {
		if r := s.named[place{namespace, name}]; r != nil {
			return r
		}
	}
	return s.named[place{"", name}]
}

// Rule returns the rule that computes a metric for a namespace; nil: none does. A rename computes
// no metric.
func (s *Set) Rule(namespace, name string) *Rule { return s.at(namespace, name) }

// Verdicts are those of all documents, the oldest first.
func (s *Set) Verdicts() []Verdict {
	if s == nil {
		return nil
	}
	return s.verdicts
}

// Empty reports whether no rule holds.
func (s *Set) Empty() bool { return s == nil || len(s.named) == 0 && len(s.renames) == 0 }

// pushedName returns the pushed metric that a renamed one stands for, with the rule.
func (s *Set) pushedName(namespace, name string) (string, *Rule) {
	if s == nil || len(s.renames) == 0 {
		return "", nil
	}
	for _, in := range []string{namespace, ""} {
		for _, r := range s.renames[in] {
			if pushed, ok := r.rename.Pushed(name); ok {
				return pushed, r
			}
		}
		if namespace == "" {
			break
		}
	}
	return "", nil
}

// PushedName returns the pushed metric that a name stands for in a namespace, if a rename gives the name
// to one; empty: none does. A pushed metric of the name itself comes first.
func (s *Set) PushedName(namespace, name string) string {
	pushed, _ := s.pushedName(namespace, name)
	return pushed
}

// Pushed returns the pushed metrics that the answer to a query may be read from: the metric itself,
// and the operands of its rule or the metric that a rename stands for.
func (s *Set) Pushed(q metric.Query) []metric.Expression {
	all := []metric.Expression{q.Expression}
	if s.Empty() {
		return all
	}
	namespace := NamespaceOf(&q)
	renamed := func(from metric.Expression) {
		if pushed, r := s.pushedName(namespace, from.Name); r != nil {
			all = append(all, metric.Expression{Name: pushed, Stat: from.Stat, Window: from.Window})
		}
	}
	r := s.at(namespace, q.Expression.Name)
	if r == nil {
		renamed(q.Expression)
		return all
	}
	for i := range r.operands {
		all = append(all, r.operands[i].metric)
		renamed(r.operands[i].metric)
	}
	return all
}

// NamesFor calls each with the names, other than its own, by which readers of a namespace use a
// pushed metric: those of rules that read it, those of renames, and those of rules that read it by
// such a name. It stops if each returns true, and returns that.
func (s *Set) NamesFor(namespace, pushed string, each func(name string) bool) bool {
	if s.Empty() {
		return false
	}
	if s.readers(namespace, pushed, each) {
		return true
	}
	for _, in := range []string{namespace, ""} {
		for _, r := range s.renames[in] {
			if name, ok := r.rename.New(pushed); ok && (each(name) || s.readers(namespace, name, each)) {
				return true
			}
		}
		if namespace == "" {
			break
		}
	}
	return false
}

// readers calls each with the metrics of the rules that have an operand of a name, for a namespace.
func (s *Set) readers(namespace, name string, each func(name string) bool) bool {
	for _, in := range []string{namespace, ""} {
		for _, r := range s.readBy[place{in, name}] {
			if s.at(namespace, r.Metric()) == r && each(r.Metric()) {
				return true
			}
		}
		if namespace == "" {
			break
		}
	}
	return false
}

// Listed adds the metrics of rules to those that exist: a rule's metric on each resource that has all
// operands, and the new names of renamed metrics that can be asked for.
func (s *Set) Listed(all []metric.Discovered) []metric.Discovered {
	if s.Empty() {
		return all
	}
	have := make(map[place]bool, len(all)) // resource and name
	resources := []string{}
	for _, discovered := range all {
		have[place{discovered.Resource, discovered.Name}] = true
		if len(resources) == 0 || resources[len(resources)-1] != discovered.Resource {
			resources = append(resources, discovered.Resource)
		}
	}
	slices.Sort(resources)
	resources = slices.Compact(resources)
	add := func(to []metric.Discovered, resource, name string) []metric.Discovered {
		if key := (place{resource, name}); !have[key] {
			have[key] = true
			to = append(to, metric.Discovered{Resource: resource, Name: name})
		}
		return to
	}
	var computed, renamed []metric.Discovered
	for _, discovered := range all {
		s.eachRename(func(r *Rule) {
			if name, ok := r.rename.New(discovered.Name); ok {
				if back, ok := r.rename.Pushed(name); ok && back == discovered.Name {
					renamed = add(renamed, discovered.Resource, name)
				}
			}
		})
	}
	for _, v := range s.verdicts {
		if v.Rule == nil || v.Rule.rename != nil {
			continue
		}
		for _, resource := range resources {
			if !slices.ContainsFunc(v.Rule.operands, func(o Operand) bool { return !have[place{resource, o.metric.Name}] }) {
				computed = add(computed, resource, v.Rule.Metric())
			}
		}
	}
	// Rules come first: people wrote them, and a list may be cut.
	return append(append(computed, renamed...), all...)
}

func (s *Set) eachRename(each func(*Rule)) {
	for _, v := range s.verdicts {
		if v.Rule != nil && v.Rule.rename != nil {
			each(v.Rule)
		}
	}
}

// Differences are the namespaces whose rules of two sets differ; the empty one: those of the cluster.
type Differences map[string]bool

// Concern reports whether the rules that hold for a namespace differ.
func (d Differences) Concern(namespace string) bool { return d[namespace] || d[""] }

// Differences compares the rules with those of another set. Rules that NewSet has kept are the same.
func (s *Set) Differences(from *Set) Differences {
	differ := Differences{}
	differ.add(s, from)
	differ.add(from, s)
	return differ
}

// add adds the namespaces of which a set has rules that the other one doesn't have.
func (d Differences) add(of, other *Set) {
	if of == nil {
		return
	}
	if other == nil {
		other = &Set{}
	}
	for at, r := range of.named {
		if other.named[at] != r {
			d[at.namespace] = true
		}
	}
	for namespace, renames := range of.renames {
		if !slices.Equal(renames, other.renames[namespace]) {
			d[namespace] = true
		}
	}
}

// Current holds the present Set. Any goroutine may use it.
type Current struct{ set atomic.Pointer[Set] }

// Set returns the present rules; nil: none.
func (c *Current) Set() *Set { return c.set.Load() }

// Replace replaces the rules.
func (c *Current) Replace(s *Set) { c.set.Store(s) }
