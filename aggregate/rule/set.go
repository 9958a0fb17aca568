package rule

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Set holds the rules of a process. Its rules never change, and any goroutine may use it; the nil Set has
// no rules.
type Set struct {
	named    map[place]*Rule
	renames  map[string][]*Rule // by namespace
	readBy   map[place][]*Rule  // by an operand's bare name, which a rename may have given; expressions only
	verdicts []Verdict
	compiled map[place]compilation
	listed   listed
}

// listed is what Listed added last. As the list of pushed metrics, it is kept for ten times as long as it took to make.
type listed struct {
	mu    sync.Mutex // guards the rest; held while it is computed: those who ask meanwhile wait for it
	of    []metric.Discovered
	added []metric.Discovered
	until time.Time // added stands for other lists, too
}

const listingShare = 10

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

// Bounds of what renames add to a list, and take for it.
const (
	mostRenamed    = 100     // names of one namespace
	mostRenameWork = 1 << 24 // instructions times bytes of names, of all namespaces in equal parts: a tenth of a second
)

// Listed adds the metrics of rules to those that exist: a rule's metric on each resource that has all
// operands, and the new names of renamed metrics that can be asked for. A list may be cut: the pushed ones come first,
// then those that expressions compute. One namespace's renames add a hundred names.
func (s *Set) Listed(all []metric.Discovered) []metric.Discovered {
	if s.Empty() {
		return all
	}
	l := &s.listed
	l.mu.Lock()
	defer l.mu.Unlock()
	if began := time.Now(); began.After(l.until) && !slices.Equal(l.of, all) {
		have := make(map[metric.Discovered]bool, len(all)) // of any kind
		for _, discovered := range all {
			have[metric.Discovered{Resource: discovered.Resource, Name: discovered.Name}] = true
		}
		l.of = slices.Clone(all)
		renamed := s.renamed(all, have)
		l.added = append(s.computed(all, have), renamed...)
		l.until = time.Now().Add(listingShare * time.Since(began))
	}
	return slices.Concat(all, l.added)
}

// renamed are the new names of listed metrics, but for those that the list has.
func (s *Set) renamed(all []metric.Discovered, have map[metric.Discovered]bool) (renamed []metric.Discovered) {
	rules := s.allRenames()
	left := roomOf(rules)
	for _, discovered := range all {
		for _, r := range rules {
			of := left[r.Document.Namespace]
			if of.names <= 0 || of.work <= 0 {
				continue
			}
			of.work -= r.rename.size * len(discovered.Name)
			if name, ok := r.rename.New(discovered.Name); ok {
				of.work -= r.rename.size * len(name)
				add := metric.Discovered{Resource: discovered.Resource, Name: name}
				if back, ok := r.rename.Pushed(name); ok && back == discovered.Name && !have[add] {
					have[add] = true
					renamed = append(renamed, add)
					of.names--
				}
			}
			left[r.Document.Namespace] = of
		}
	}
	return renamed
}

// roomOf is what the renames of each namespace may add to a list.
func roomOf(renames []*Rule) map[string]renameRoom {
	room := map[string]renameRoom{}
	for _, r := range renames {
		room[r.Document.Namespace] = renameRoom{}
	}
	for namespace := range room {
		room[namespace] = renameRoom{mostRenamed, mostRenameWork / len(room)}
	}
	room[""] = renameRoom{math.MaxInt, math.MaxInt} // administrators write those of the cluster
	return room
}

type renameRoom struct{ names, work int }

func (s *Set) allRenames() (all []*Rule) {
	for _, v := range s.verdicts {
		if v.Rule != nil && v.Rule.rename != nil {
			all = append(all, v.Rule)
		}
	}
	return all
}

// computed are the metrics of expressions on each resource that has all operands, but for those that the list has.
func (s *Set) computed(all []metric.Discovered, have map[metric.Discovered]bool) (computed []metric.Discovered) {
	var resources []string
	for _, discovered := range all {
		resources = append(resources, discovered.Resource)
	}
	slices.Sort(resources)
	resources = slices.Compact(resources)
	for _, v := range s.verdicts {
		if v.Rule == nil || v.Rule.rename != nil {
			continue
		}
		for _, resource := range resources {
			add := metric.Discovered{Resource: resource, Name: v.Rule.Metric()}
			lacks := func(o Operand) bool { return !have[metric.Discovered{Resource: resource, Name: o.metric.Name}] }
			if !have[add] && !slices.ContainsFunc(v.Rule.operands, lacks) {
				have[add] = true
				computed = append(computed, add)
			}
		}
	}
	return computed
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
