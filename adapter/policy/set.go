package policy

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A Request asks for an external metric.
type Request struct {
	Namespace  string
	Expression metric.Expression
	// Selector has the requirements of the request's own selector.
	Selector []Requirement
	Reader   metric.Reader
	// Forwarded is set for a metric of another provider, whose name is Expression.Name. It may ignore the case of
	// names, and of several requirements for a label it may take any.
	Forwarded bool
}

// Denial is the error of a request that a policy doesn't allow. It names the policy and its rule.
type Denial struct {
	Policy *Policy
	Rule   int // index
	text   string
}

func (d *Denial) Error() string { return d.text }

// Unwrap makes a Denial metric.ErrForbidden.
func (d *Denial) Unwrap() error { return metric.ErrForbidden }

// MaxRulesTogether bounds the rules of all policies of a namespace, and of the cluster's: a name that
// nobody asked for before is matched with each of them. The rules of newer policies above it deny
// every metric.
const MaxRulesTogether = 1024

// Bounds of the policies of a namespace together, beside that of their rules. A match takes the
// time of instructions times bytes of the name; who may have a series takes that of subjects and
// labels.
const (
	maxWork             = 32 * MaxRulesTogether
	maxSubjectsTogether = 4 * MaxRulesTogether
	maxLabelsTogether   = 4 * MaxRulesTogether // that selectors name
)

// A Set holds the policies of a cluster. Any goroutine may use it. Without policies a check is one
// atomic load. Names that nobody asked for before wait for their turn to be matched. Where that
// takes too long, the answer is as if the policies were unknown: nobody may read.
type Set struct {
	window   time.Duration // of a metric that is asked for without one
	current  atomic.Pointer[generation]
	matching *matching
}

// New makes an empty set. window is the window of a metric that is asked for without one.
func New(window time.Duration) *Set { return &Set{window: window, matching: newMatching()} }

// Replace replaces all policies. Verdicts stay for namespaces where the same policies count as before, so
// writing policies in one namespace costs no reader of another.
func (s *Set) Replace(policies []*Policy) {
	if len(policies) == 0 {
		s.current.Store(nil)
		return
	}
	g := &generation{window: s.window, given: map[string][]*Policy{}, byNamespace: map[string][]*Policy{},
		memory: newMemory()}
	for _, p := range policies {
		g.given[p.Namespace] = append(g.given[p.Namespace], p)
	}
	before := s.current.Load()
	for namespace, list := range g.given {
		slices.SortFunc(list, age)
		if g.byNamespace[namespace] = slices.Clone(list); before.same(g, namespace) {
			g.byNamespace[namespace] = before.byNamespace[namespace]
		} else {
			boundsOf(namespace).closeAbove(g.byNamespace[namespace])
		}
	}
	before.handOver(g)
	s.current.Store(g)
}

// same reports whether a namespace (empty: the cluster) has the same policies in the next generation.
func (g *generation) same(next *generation, namespace string) bool {
	return g != nil && slices.Equal(g.given[namespace], next.given[namespace])
}

// handOver copies the verdicts that are the same in the next generation.
func (g *generation) handOver(next *generation) {
	if !g.same(next, "") {
		return
	}
	same := map[string]bool{}
	g.memory.handOver(next.memory, func(q question) bool {
		if _, compared := same[q.namespace]; !compared {
			same[q.namespace] = g.same(next, q.namespace)
		}
		return same[q.namespace]
	})
}

// bounds are what policies may have together.
type bounds struct{ rules, work, subjects, labels int }

// boundsOf returns those of a namespace. Only administrators write the cluster's policies.
func boundsOf(namespace string) bounds {
	if namespace == "" {
		return bounds{MaxRulesTogether, math.MaxInt, math.MaxInt, math.MaxInt}
	}
	return bounds{MaxRulesTogether, maxWork, maxSubjectsTogether, maxLabelsTogether}
}

// closeAbove replaces the newest policies, above the bounds.
func (b bounds) closeAbove(list []*Policy) {
	for i, p := range list {
		if p.size == 0 { // it denies every metric already
			continue
		}
		b.rules, b.work = b.rules-len(p.rules), b.work-p.work
		b.subjects, b.labels = b.subjects-len(p.subjects), b.labels-p.labels
		switch {
		case b.rules < 0:
			list[i] = p.closed("rules", "are more than %d together with those of older policies; this policy denies every metric", MaxRulesTogether)
		case b.subjects < 0:
			list[i] = p.closed("subjects", "are more than %d together with those of older policies; this policy denies every metric", maxSubjectsTogether)
		case b.labels < 0:
			list[i] = p.closed("rules", "have selectors of more than %d labels together with those of older policies; this policy denies every metric", maxLabelsTogether)
		case b.work < 0:
			list[i] = p.closed("rules", "have expressions of more than %d instructions together with those of older policies, about one for each letter and ten for .{10}; this policy denies every metric", maxWork)
		}
	}
}

func age(a, b *Policy) int { return cmp.Or(a.Created.Compare(b.Created), order(a, b)) }

func order(a, b *Policy) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Check returns nil if each policy of the namespace and of the cluster allows the request,
// otherwise a *Denial, or metric.ErrNotReady if that could not be decided.
func (s *Set) Check(r Request) error {
	g := s.current.Load()
	if g == nil {
		return nil
	}
	v, err := s.verdict(g, question{r.Namespace, r.Expression, r.Forwarded})
	if err != nil {
		return err
	}
	asked := sync.OnceValue(func() constraint { return constraintOf(r.Selector) })
	for _, h := range v.hits {
		if !h.policy.concerns(r.Reader) {
			continue
		}
		rule := h.rule()
		ambiguous := r.Forwarded && len(rule.allowed) > 0 && (asked().empty() || repeats(r.Selector))
		if rule.denies() || ambiguous || !asked().within(rule.allowed) {
			return h.denial(r)
		}
	}
	return nil
}

// repeats reports whether several requirements are for one label.
func repeats(all []Requirement) bool {
	keys := map[string]bool{}
	for _, r := range all {
		keys[r.Key] = true
	}
	return len(keys) < len(all)
}

// MayHave reports whether a reader may get one series of a metric by each of some expressions:
// whether they could ask for it by all of its labels. lookup returns the value of a label as
// selectors spell it. A rule that several expressions hit is compared with the series once.
func (s *Set) MayHave(namespace string, all []metric.Expression, lookup func(key string) (string, bool),
	reader metric.Reader) bool {
	g := s.current.Load()
	if g == nil {
		return true
	}
	passed := map[hit]bool{}
	for _, e := range all {
		v, err := s.verdict(g, question{namespace, e, false})
		if err != nil {
			return false
		}
		for _, h := range v.hits {
			if passed[h] {
				continue
			}
			if h.policy.concerns(reader) && (h.rule().denies() || !h.rule().allowed.has(lookup)) {
				return false
			}
			passed[h] = true
		}
	}
	return true
}

// Governs reports whether a rule of a policy matches a metric in a namespace, for whichever readers; for
// the zero expression, whether there are policies that count there. The error is metric.ErrNotReady: that is not decided.
func (s *Set) Governs(namespace string, e metric.Expression) (bool, error) {
	g := s.current.Load()
	switch {
	case g == nil:
		return false, nil
	case e == (metric.Expression{}):
		return len(g.byNamespace[""])+len(g.byNamespace[namespace]) > 0, nil
	}
	v, err := s.verdict(g, question{namespace, e, false})
	return err != nil || len(v.hits) > 0, err
}

// Hidden reports whether the cluster's policies deny a metric to everybody in every namespace, so
// that discovery doesn't list it. One of another provider is forwarded.
func (s *Set) Hidden(name string, forwarded bool) bool {
	g := s.current.Load()
	if g == nil {
		return false
	}
	v, err := s.verdict(g, question{"", metric.Expression{Name: name}, forwarded})
	return err != nil || v.hidden
}

// Policies are all policies, those of the cluster first, then by namespace and name.
func (s *Set) Policies() []*Policy {
	g := s.current.Load()
	if g == nil {
		return nil
	}
	var all []*Policy
	for _, list := range g.byNamespace {
		all = append(all, list...)
	}
	slices.SortFunc(all, order)
	return all
}

// generation is the policies between two changes. It remembers which rules the names that were
// asked for hit.
type generation struct {
	window time.Duration
	// given are the policies by namespace, the oldest first; byNamespace those in force. Both are immutable.
	given, byNamespace map[string][]*Policy
	memory             *memory
}

// remembered returns the verdict about a name that was asked for before. Where no policy counts,
// every verdict is known.
func (g *generation) remembered(q question) (verdict, bool) {
	if len(g.byNamespace[q.namespace]) == 0 {
		return verdict{}, true
	}
	return g.memory.of(q)
}

// question returns what a metric is remembered by. Namespaces without policies of their own share
// the cluster's verdict.
func (g *generation) question(q question) question {
	if len(g.byNamespace[q.namespace]) == 0 {
		q.namespace = ""
	}
	return q
}

// verdict matches a name that was not asked for since the policies changed. A reader that waited
// for its turn is answered by the policies that hold by then: were it answered by those of its
// request, the readers that wait would match each name once for every change of the policies. The
// error is metric.ErrNotReady: it is not decided.
func (s *Set) verdict(g *generation, asked question) (verdict, error) {
	if v, known := g.remembered(g.question(asked)); known {
		return v, nil
	}
	if len(asked.expression.Name) > metric.MaxNameLength {
		return verdict{hits: []hit{{tooLong, 0}}, hidden: true, denied: true}, nil
	}
	turn, err := s.matching.begin(asked.namespace)
	if err == nil {
		defer turn.end()
	}
	if g = s.current.Load(); g == nil {
		return verdict{}, nil
	}
	if v, known := g.remembered(g.question(asked)); known {
		return v, nil // a goroutine matched it a moment ago
	}
	if err != nil {
		return verdict{}, err
	}
	names := spellingsOf(asked.expression, g.window)
	if asked.forwarded {
		name := asked.expression.Name // of some letters the lower case is another one: of a dotted I, i
		names = spellings{shared: []string{name, strings.ToLower(name)}, groups: [][]string{nil}, anyCase: true}
	}
	return g.match(g.question(asked), asked.namespace, names, turn.yield), nil
}

// tooLong denies names that no metric can have, which would take long to match.
var tooLong = (&Policy{Meta: Meta{Name: "too-long"}}).closed("metric", "is longer than %d bytes", metric.MaxNameLength)

// match asks the policies about the spellings of a name. Those of the cluster are asked once for
// all namespaces. yield is called between matches of an expression.
func (g *generation) match(q question, asker string, names spellings, yield func()) (v verdict) {
	if q.namespace != "" {
		ofCluster, known := question{"", q.expression, q.forwarded}, false
		if v, known = g.remembered(ofCluster); !known {
			v = g.match(ofCluster, asker, names, yield)
		}
		v.hits = slices.Clip(v.hits) // shared with other namespaces
	}
	for _, p := range g.byNamespace[q.namespace] {
		if v.denied && (v.hidden || q.namespace != "") {
			break // no later policy changes that
		}
		first := p.first(names, yield)
		if q.namespace == "" {
			v.hidden = v.hidden || p.hides(first)
		}
		v.add(p, first)
	}
	g.memory.keep(q, v, asker)
	return v
}

// hides reports whether a policy denies a metric to everybody, whatever its kind. first are the
// rules of its groups of names.
func (p *Policy) hides(first []int) bool {
	return len(p.subjects) == 0 && !slices.ContainsFunc(first, func(i int) bool { return i < 0 || !p.rules[i].denies() })
}

// add adds a policy's rules, each once.
func (v *verdict) add(p *Policy, first []int) {
	slices.Sort(first)
	for _, i := range slices.Compact(first) {
		if i >= 0 {
			v.hits = append(v.hits, hit{p, i})
			v.denied = v.denied || len(p.subjects) == 0 && p.rules[i].denies()
		}
	}
}

// first returns the index of the policy's first rule for each group of names; -1: none. Expressions are
// slow, so each is tried on each name once.
func (p *Policy) first(names spellings, yield func()) []int {
	first := make([]int, len(names.groups))
	for n := range first {
		first[n] = -1
	}
	for i := range p.rules {
		if !slices.Contains(first, -1) {
			break
		}
		pattern := p.rules[i].pattern
		if names.anyCase {
			pattern = p.rules[i].anyCase
		}
		shared := matches(pattern, names.shared, yield)
		for n, group := range names.groups {
			if first[n] < 0 && (shared || matches(pattern, group, yield)) {
				first[n] = i
			}
		}
	}
	return first
}

// matches reports whether a pattern matches one of the names; nil matches everything.
func matches(pattern *regexp.Regexp, names []string, yield func()) bool {
	return pattern == nil || slices.ContainsFunc(names, func(name string) bool {
		yield()
		return pattern.MatchString(name)
	})
}

// spellings are the names that ask for the same values: the bare name, the one that was asked for,
// and the one with the defaults written out. A metric's kind decides its default stat, so a name
// without a stat has a group of names for each kind, and each group's first rule must allow it:
// otherwise a rule that allows one stat would open another by the bare name.
type spellings struct {
	shared  []string   // by all groups
	groups  [][]string // beside the shared ones
	anyCase bool       // upper and lower case are the same
}

func spellingsOf(e metric.Expression, window time.Duration) (names spellings) {
	names.shared = spelled([]string{e.Name}, e, window)
	if e.Stat != metric.NoStat {
		names.groups = [][]string{nil}
		return names
	}
	for _, k := range metric.Kinds() {
		full := e
		full.Stat = k.DefaultStat()
		names.groups = append(names.groups, spelled(nil, full, window))
	}
	return names
}

// spelled appends the spellings with and without the default window.
func spelled(names []string, e metric.Expression, window time.Duration) []string {
	if name := e.String(); !slices.Contains(names, name) {
		names = append(names, name)
	}
	switch other := e; {
	case e.Window == 0 && e.Stat.Windowed():
		other.Window = window
		names = append(names, other.String())
	case e.Window == window:
		other.Window = 0
		names = append(names, other.String())
	}
	return names
}

// denies reports whether the rule denies whatever it matches.
func (r *rule) denies() bool { return r.deny || r.fault != "" }

func (p *Policy) concerns(r metric.Reader) bool {
	return len(p.subjects) == 0 || slices.ContainsFunc(p.subjects, func(s Subject) bool {
		switch s.Kind {
		case "User":
			return s.Name == r.User
		case "Group":
			return slices.Contains(r.Groups, s.Name)
		}
		return s.isAccount(r.User)
	})
}

// isAccount reports whether a user is the ServiceAccount, without an allocation: a page asks about
// each series.
func (s Subject) isAccount(user string) bool {
	rest, is := strings.CutPrefix(user, "system:serviceaccount:")
	if !is {
		return false
	}
	if rest, is = strings.CutPrefix(rest, s.Namespace); !is {
		return false
	}
	name, is := strings.CutPrefix(rest, ":")
	return is && name == s.Name
}

func (h hit) denial(r Request) *Denial {
	d := &Denial{Policy: h.policy, Rule: h.index}
	rule := h.rule()
	reason := fmt.Sprintf("is denied by rules[%d] of %s", h.index, h.policy)
	switch {
	case h.policy == tooLong:
		d.text = fmt.Sprintf("the external metric %q is denied: its name has %d bytes; must have at most %d",
			metric.Truncate(r.Expression.Name, metric.MaxQuoted), len(r.Expression.Name), metric.MaxNameLength)
		return d
	case rule.fault != "":
		reason += ", which has a fault: " + rule.fault
	case !rule.deny:
		reason = fmt.Sprintf("must be asked for with a selector within %q, by rules[%d] of %s", rule.text, h.index, h.policy)
		if r.Forwarded {
			reason += "; of another provider, with one requirement for each label"
		}
	}
	d.text = fmt.Sprintf("the external metric %q %s", r.Expression.String(), reason)
	return d
}
