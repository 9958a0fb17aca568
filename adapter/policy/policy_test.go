package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

func setOf(policies ...*Policy) *Set {
	s := New(time.Minute)
	s.Replace(policies)
	return s
}

func deny(pattern string) Rule { return Rule{Metric: pattern, Deny: true} }

func only(pattern, key string, list ...string) Rule {
	return Rule{Metric: pattern, Selector: &Selector{MatchExpressions: []Requirement{{key, In, list}}}}
}

func of(text string) []Requirement {
	if text == "" {
		return nil
	}
	key, value, _ := strings.Cut(text, "=")
	return []Requirement{{key, In, []string{value}}}
}

func (s *Set) ask(namespace, name, selector string, reader metric.Reader) string {
	err := s.Check(Request{namespace, metric.ParseExpression(name), of(selector), reader, false})
	if err == nil {
		return "allowed"
	}
	if errors.Is(err, metric.ErrNotReady) {
		return "undecided"
	}
	if !errors.Is(err, metric.ErrForbidden) {
		return "another error: " + err.Error()
	}
	var d *Denial
	if !errors.As(err, &d) {
		return "no Denial: " + err.Error()
	}
	return fmt.Sprintf("%s %d", d.Policy.Name, d.Rule)
}

// The paragraph of the external metrics API's design, sentence by sentence.
func TestDesignOfExternalMetrics(t *testing.T) {
	jane, joe := metric.Reader{User: "jane", Groups: []string{"shop"}}, metric.Reader{User: "joe"}
	robot := metric.Reader{User: "system:serviceaccount:shop:robot"}
	for _, one := range []struct {
		sentence string
		policies []*Policy
		asks     [][5]any // namespace, name, selector, reader, answer
	}{
		{"at cluster level", []*Policy{Compile(Meta{Namespace: "", Name: "all"}, Spec{Rules: []Rule{deny("secret")}})}, [][5]any{
			{"shop", "secret", "", jane, "all 0"}, {"bank", "secret", "", joe, "all 0"}, {"shop", "open", "", jane, "allowed"},
		}},
		{"per namespace", []*Policy{Compile(Meta{Namespace: "shop", Name: "ours"}, Spec{Rules: []Rule{deny("secret")}})}, [][5]any{
			{"shop", "secret", "", jane, "ours 0"}, {"bank", "secret", "", jane, "allowed"},
		}},
		{"per user", []*Policy{Compile(Meta{Namespace: "shop", Name: "joes"}, Spec{
			Subjects: []Subject{{"User", "joe", ""}, {"ServiceAccount", "robot", "shop"}, {"Group", "shop", ""}},
			Rules:    []Rule{deny("secret")},
		})}, [][5]any{
			{"shop", "secret", "", joe, "joes 0"}, {"shop", "secret", "", robot, "joes 0"}, {"shop", "secret", "", jane, "joes 0"},
			{"shop", "secret", "", metric.Reader{User: "jane"}, "allowed"}, {"shop", "secret", "", metric.Reader{}, "allowed"},
		}},
		{"a mandatory regexp", []*Policy{Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny("")}})}, [][5]any{
			{"shop", "anything", "", jane, "p 0"}, // a fault never opens
		}},
		{"applied top to bottom, with the first matching rule being used", []*Policy{Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{
			only("jobs", "queue", "mail"), deny("jobs.*"), only("jobs_done", "queue", "mail"),
		}})}, [][5]any{
			{"shop", "jobs", "queue=mail", jane, "allowed"}, {"shop", "jobs", "", jane, "p 0"},
			{"shop", "jobs_done", "queue=mail", jane, "p 1"}, {"shop", "work", "", jane, "allowed"},
		}},
		{"a deny rule", []*Policy{Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny("a|b")}})}, [][5]any{
			{"shop", "a", "x=y", jane, "p 0"}, {"shop", "b", "", jane, "p 0"},
			{"shop", "ab", "", jane, "allowed"}, {"shop", "xa", "", jane, "allowed"},
		}},
		{"a selector that is not a subset", []*Policy{Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{only(".*", "queue", "mail", "sms")}})}, [][5]any{
			{"shop", "jobs", "queue=mail", jane, "allowed"}, {"shop", "jobs", "queue=fax", jane, "p 0"},
			{"shop", "jobs", "other=mail", jane, "p 0"}, {"shop", "jobs", "", jane, "p 0"},
		}},
	} {
		set := setOf(one.policies...)
		for _, ask := range one.asks {
			if got := set.ask(ask[0].(string), ask[1].(string), ask[2].(string), ask[3].(metric.Reader)); got != ask[4] {
				t.Errorf("%s: %v: %s, want %s", one.sentence, ask[:3], got, ask[4])
			}
		}
	}
}

// A namespace can't loosen what the cluster denies, and each policy must allow.
func TestEachPolicyMustAllow(t *testing.T) {
	everything := Rule{Metric: ".*", Selector: &Selector{}}
	set := setOf(
		Compile(Meta{Namespace: "", Name: "cluster"}, Spec{Rules: []Rule{deny("secret")}}),
		Compile(Meta{Namespace: "shop", Name: "open"}, Spec{Rules: []Rule{everything}}),
		Compile(Meta{Namespace: "shop", Name: "closed"}, Spec{Rules: []Rule{deny("jobs")}}),
	)
	for name, want := range map[string]string{"secret": "cluster 0", "jobs": "closed 0", "work": "allowed"} {
		if got := set.ask("shop", name, "", metric.Reader{}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// No spelling of a metric dodges a rule about it.
func TestSpellings(t *testing.T) {
	for _, one := range []struct{ pattern, name, want string }{
		{"latency", "latency:p99", "p 0"},
		{"latency", "latency:p99:5m", "p 0"},
		{"latency", "latency:5m", "p 0"},
		{"latency:p99", "latency:p99", "p 0"},
		{"latency:p99:1m", "latency:p99", "p 0"},
		{"latency:p99", "latency:p99:1m", "p 0"},
		{"latency:p99", "latency:p99:5m", "allowed"},
		{"latency:p99", "latency:p95", "allowed"},
		{"latency:mean", "latency", "p 0"},
		{"latency:mean:1m", "latency:1m", "p 0"},
		{"depth:last", "depth", "p 0"},
		{"requests:rate:1m", "requests", "p 0"},
		{"requests:total", "requests", "allowed"},
		{"latency", "Latency", "allowed"},
		{"(?i)latency", "Latency", "p 0"},
		{"ns/latency", "ns/latency", "p 0"},
		{"a.b", "a\nb", "allowed"},
		{"(?s)a.b", "a\nb", "p 0"},
	} {
		set := setOf(Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny(one.pattern)}}))
		if got := set.ask("shop", one.name, "", metric.Reader{}); got != one.want {
			t.Errorf("%s against %s: %s, want %s", one.name, one.pattern, got, one.want)
		}
	}
}

// The bare name asks for one of the default stats, so each of them must be allowed.
func TestBareNameOpensNoOtherStat(t *testing.T) {
	free := func(pattern string) Rule { return Rule{Metric: pattern, Selector: &Selector{}} }
	for _, one := range []struct {
		rules []Rule
		want  map[string]string
	}{
		{[]Rule{free("temp:mean"), deny("temp.*")},
			map[string]string{"temp:mean": "allowed", "temp:mean:1m": "allowed", "temp:last": "p 1", "temp": "p 1", "temp:1m": "p 1"}},
		{[]Rule{deny("temp:mean"), free("temp.*")}, map[string]string{"temp:mean": "p 0", "temp:last": "allowed", "temp": "p 0"}},
	} {
		set := setOf(Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: one.rules}))
		for name, want := range one.want {
			if got := set.ask("shop", name, "", metric.Reader{}); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// A policy with a fault denies what it names, and says what is wrong.
func TestFaults(t *testing.T) {
	many := make([]Rule, maxRules+1)
	for i := range many {
		many[i] = deny("x")
	}
	for _, one := range []struct {
		spec  Spec
		fault string
		named string // "p 0": what the rule named is denied
		other string
	}{
		{Spec{}, "rules is empty; must have 1 to 64 rules", "p 0", "p 0"},
		{Spec{Rules: many}, "rules has 65 rules; must have at most 64", "p 0", "p 0"},
		{Spec{Rules: []Rule{{Metric: "a("}}}, `rules[0].metric is "a("; must be an RE2 expression: error parsing regexp: missing closing ): ` + "`a(`", "p 0", "p 0"},
		{Spec{Rules: []Rule{deny(`\Qa.b`)}}, "rules[0].metric is \"\\\\Qa.b\"; must be an RE2 expression that ends: error parsing regexp: missing closing ): `^(?:\\Qa.b)$`", "p 0", "p 0"},
		{Spec{Rules: []Rule{deny("a)|(b")}}, "rules[0].metric is \"a)|(b\"; must be an RE2 expression: error parsing regexp: unexpected ): `a)|(b`", "p 0", "p 0"},
		{Spec{Rules: []Rule{deny(strings.Repeat("a", 129))}}, "rules[0].metric has 129 bytes; must have 1 to 128", "p 0", "p 0"},
		{Spec{Rules: []Rule{deny("((a{10}){10}){10}b{1000}c{900}")}}, `rules[0].metric is "((a{10}){10}){10}b{1000}c{900}", which repeats too much; must have at most 500 instructions`, "p 0", "p 0"},
		{Spec{Rules: []Rule{{Metric: "a"}}}, "rules[0] has neither a selector nor deny: true; must have one of them", "p 0", "allowed"},
		{Spec{Rules: []Rule{{Metric: "a", Deny: true, Selector: &Selector{}}}}, "rules[0] has a selector and deny; must have one of them", "p 0", "allowed"},
		{Spec{Rules: []Rule{{Metric: "a", Selector: &Selector{MatchExpressions: []Requirement{{"x", "in", []string{"y"}}}}}}},
			`rules[0].selector.matchExpressions[0].operator is "in"; must be In, NotIn, Exists or DoesNotExist`, "p 0", "allowed"},
		{Spec{Rules: []Rule{{Metric: "a", Selector: &Selector{MatchExpressions: []Requirement{{"x", In, nil}}}}}},
			"rules[0].selector.matchExpressions[0].values is empty; must have a value for the operator In", "p 0", "allowed"},
		{Spec{Rules: []Rule{{Metric: "a", Selector: &Selector{MatchExpressions: []Requirement{{"x", Exists, []string{"y"}}}}}}},
			"rules[0].selector.matchExpressions[0].values has 1 values; must be empty for the operator Exists", "p 0", "allowed"},
		{Spec{Rules: []Rule{only("a", "x", "y/z")}}, `rules[0].selector has the value "y/z", which no selector can have; must be "y_z"`, "p 0", "allowed"},
		{Spec{Subjects: []Subject{{"Person", "joe", ""}}, Rules: []Rule{deny("a")}}, `subjects[0].kind is "Person"; must be User, Group or ServiceAccount`, "p 0", "allowed"},
		{Spec{Subjects: []Subject{{"User", "", ""}}, Rules: []Rule{deny("a")}}, "subjects[0].name is empty; must name the User", "p 0", "allowed"},
		{Spec{Subjects: []Subject{{"ServiceAccount", "joe", ""}}, Rules: []Rule{deny("a")}}, "subjects[0].namespace is empty; must name the namespace of the ServiceAccount", "p 0", "allowed"},
	} {
		p := Compile(Meta{Namespace: "shop", Name: "p"}, one.spec)
		if len(p.Faults) == 0 || p.Faults[0] != one.fault {
			t.Errorf("faults %q, want %q", p.Faults, one.fault)
		}
		set := setOf(p)
		if got := set.ask("shop", "a", "", metric.Reader{User: "jane"}); got != one.named {
			t.Errorf("%s: %s, want %s", one.fault, got, one.named)
		}
		if got := set.ask("shop", "other", "", metric.Reader{User: "jane"}); got != one.other {
			t.Errorf("%s: another metric: %s, want %s", one.fault, got, one.other)
		}
	}
}

// A series is shown to those who may ask for it by all of its labels.
func TestSingleSeries(t *testing.T) {
	set := setOf(Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny("secret"), only("jobs", "queue", "mail")}}))
	label := func(value string) func(string) (string, bool) {
		return func(key string) (string, bool) { return value, key == "queue" && value != "" }
	}
	for _, one := range []struct {
		name, queue string
		want        bool
	}{{"secret", "mail", false}, {"jobs", "mail", true}, {"jobs", "fax", false}, {"jobs", "", false}, {"work", "", true}} {
		if got := set.MayHave("shop", []metric.Expression{{Name: one.name}}, label(one.queue), metric.Reader{}); got != one.want {
			t.Errorf("%s of queue %q: %v", one.name, one.queue, got)
		}
	}
}

// Discovery names no namespace, so it hides only metrics that nobody may read anywhere.
func TestHidden(t *testing.T) {
	set := setOf(
		Compile(Meta{Namespace: "", Name: "c"}, Spec{Rules: []Rule{deny("secret"), only("jobs", "queue", "mail")}}),
		Compile(Meta{Namespace: "", Name: "d"}, Spec{Subjects: []Subject{{"User", "joe", ""}}, Rules: []Rule{deny("joes")}}),
		Compile(Meta{Namespace: "shop", Name: "s"}, Spec{Rules: []Rule{deny("shops")}}),
		Compile(Meta{Name: "e"}, Spec{Rules: []Rule{deny("work:rate"), deny("half:rate")}}),
		Compile(Meta{Name: "f"}, Spec{Rules: []Rule{deny("half.*")}}), // after a denial of one stat
	)
	for name, want := range map[string]bool{"secret": true, "half": true, "work": false, "jobs": false, "joes": false, "shops": false} {
		if got := set.Hidden(name, false); got != want {
			t.Errorf("%s: hidden %v", name, got)
		}
	}
}

// Policies above the number of rules that are matched with a name are closed, the newest first.
func TestRulesTogether(t *testing.T) {
	var all []*Policy
	for i := range MaxRulesTogether/maxRules + 1 {
		spec := Spec{}
		for range maxRules {
			spec.Rules = append(spec.Rules, deny("x"))
		}
		all = append(all, Compile(Meta{"shop", fmt.Sprintf("p%02d", 99-i), time.Unix(int64(i), 0)}, spec))
	}
	newest := all[len(all)-1]
	if got := setOf(all[:len(all)-1]...).ask("shop", "a", "", metric.Reader{}); got != "allowed" {
		t.Errorf("at the bound: %s", got)
	}
	set := setOf(all...)
	if got, want := set.ask("shop", "a", "", metric.Reader{}), newest.Name+" 0"; got != want {
		t.Errorf("above the bound: %s, want %s", got, want)
	}
	if len(newest.Faults) > 0 {
		t.Error("the policy itself was changed")
	}
	if got := set.ask("bank", "a", "", metric.Reader{}); got != "allowed" {
		t.Errorf("another namespace: %s", got)
	}
}

// So are those whose expressions would take long together, however few they are.
func TestExpressionsTogether(t *testing.T) {
	var all []*Policy
	for i := range 96 {
		all = append(all, Compile(Meta{"shop", fmt.Sprintf("p%02d", i), time.Unix(int64(i), 0)}, Spec{Rules: []Rule{deny(fmt.Sprintf("(?:.*.*){100}=%02d", i))}}))
	}
	each := all[0].work
	if each < 400 || each > maxPatternRun {
		t.Errorf("%d instructions", each)
	}
	set := setOf(append(all, Compile(Meta{"bank", "p", time.Unix(9, 0)}, Spec{Rules: []Rule{deny("x")}}))...)
	if got := set.ask("shop", "a", "", metric.Reader{}); got == "allowed" {
		t.Errorf("%s of %d instructions", got, len(all)*each)
	}
	for _, p := range set.Policies() {
		if closed := len(p.Faults) > 0; p.Namespace == "shop" && closed != (p.Name > fmt.Sprintf("p%02d", maxWork/each-1)) {
			t.Errorf("%s: %q", p.Name, p.Faults)
		}
	}
	if got := set.ask("bank", "a", "", metric.Reader{}); got != "allowed" {
		t.Errorf("another namespace: %s", got)
	}
	for i, p := range all {
		all[i] = Compile(Meta{"", p.Name, p.Created}, Spec{Rules: []Rule{deny(fmt.Sprintf("(?:.*.*){100}=%02d", i))}})
	}
	if got := setOf(all...).ask("shop", "a", "", metric.Reader{}); got != "allowed" {
		t.Errorf("those of the cluster, which administrators write: %s", got)
	}
}

// So are those with more labels or subjects than a page can compare with each of its series.
func TestLabelsAndSubjectsTogether(t *testing.T) {
	const each = 32
	selector, subjects := &Selector{}, []Subject{{"User", "jane", ""}}
	for i := range each {
		selector.MatchExpressions = append(selector.MatchExpressions, Requirement{fmt.Sprint("key", i), DoesNotExist, nil})
		subjects = append(subjects, Subject{"ServiceAccount", fmt.Sprint("robot", i), "shop"})
	}
	for _, one := range []struct {
		spec  Spec
		most  int // policies
		fault string
	}{
		{Spec{Rules: []Rule{{Metric: ".*", Selector: selector}}}, maxLabelsTogether / each,
			"rules have selectors of more than 4096 labels together with those of older policies; this policy denies every metric"},
		{Spec{Rules: []Rule{{Metric: ".*", Selector: &Selector{}}}, Subjects: subjects}, maxSubjectsTogether / (each + 1),
			"subjects are more than 4096 together with those of older policies; this policy denies every metric"},
	} {
		compiled := Compile(Meta{}, one.spec)
		named := func(namespace string, n int) (all []*Policy) {
			for i := range n {
				p := *compiled
				p.Meta = Meta{namespace, fmt.Sprintf("p%04d", i), time.Unix(int64(i), 0)}
				all = append(all, &p)
			}
			return all
		}
		lookups := 0
		may := func(policies []*Policy) bool {
			lookups = 0
			view := ReaderView{setOf(policies...), metric.Reader{User: "jane"}}
			return view.MayHaveKind("shop", "a", metric.Timer, func(string) (string, bool) {
				lookups++
				return "", false
			})
		}
		if !may(named("shop", one.most)) || lookups > maxLabelsTogether {
			t.Errorf("at the bound: not allowed, or %d lookups", lookups)
		}
		above := named("shop", one.most+1)
		if may(above) || lookups > maxLabelsTogether {
			t.Errorf("above the bound: allowed, or %d lookups", lookups)
		}
		newest := setOf(above...).Policies()[one.most]
		if len(newest.Faults) != 1 || newest.Faults[0] != one.fault {
			t.Errorf("faults %q, want %q", newest.Faults, one.fault)
		}
		if !may(named("", MaxRulesTogether)) {
			t.Error("those of the cluster, which administrators write, are bounded")
		}
	}
}

// A ServiceAccount is the user of that name, and no other one. Comparing them allocates nothing.
func TestServiceAccounts(t *testing.T) {
	robot := Subject{"ServiceAccount", strings.Repeat("robot", 10), "shop"}
	account := "system:serviceaccount:shop:" + robot.Name
	for user, want := range map[string]bool{account: true, account + "s": false, account[1:]: false, robot.Name: false, "": false,
		"system:serviceaccount:shop2:" + robot.Name: false, "system:serviceaccount:" + robot.Name: false,
		"system:serviceaccount:shop" + robot.Name: false, "shop:" + robot.Name: false} {
		if got := robot.isAccount(user); got != want {
			t.Errorf("%s: %v", user, got)
		}
	}
	p, reader := Compile(Meta{Name: "p"}, Spec{Subjects: []Subject{robot}, Rules: []Rule{deny("a")}}), metric.Reader{User: account}
	if n := testing.AllocsPerRun(100, func() {
		if !p.concerns(reader) {
			t.Error("the policy doesn't concern its subject")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A name that no metric can have is denied without being matched or remembered.
func TestNamesThatAreTooLong(t *testing.T) {
	set := setOf(Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny("x")}}))
	defer set.held(t)() // who matched would wait
	long := metric.Expression{Name: strings.Repeat("a", metric.MaxNameLength+1), Stat: metric.Total}
	for _, forwarded := range []bool{false, true} {
		err := set.Check(Request{Namespace: "shop", Expression: long, Forwarded: forwarded})
		if !errors.Is(err, metric.ErrForbidden) || !strings.HasSuffix(err.Error(), `is denied: its name has 513 bytes; must have at most 512`) || len(err.Error()) > 2*metric.MaxQuoted {
			t.Errorf("%v", err)
		}
	}
	governed, err := set.Governs("shop", long)
	if set.MayHave("shop", []metric.Expression{long}, func(string) (string, bool) { return "", false }, metric.Reader{}) || !governed || err != nil {
		t.Error("it may be had")
	}
	if err := set.Check(Request{Namespace: "bank", Expression: long}); err != nil {
		t.Errorf("where no policy counts: %v", err)
	}
	if n := len(set.current.Load().memory.verdicts); n != 0 {
		t.Errorf("%d verdicts", n)
	}
}

// manyPolicies are as many as a cluster may have, of expressions that are as slow as can be.
func manyPolicies(policies int) *Set {
	var all []*Policy
	for i := range policies {
		spec := Spec{}
		for j := range maxRules {
			spec.Rules = append(spec.Rules, deny(fmt.Sprintf("(x+x+)+y|(a|aa)+b%d.%d|.*.*.*=", i, j)))
		}
		all = append(all, Compile(Meta{Namespace: "shop", Name: fmt.Sprint("p", i)}, spec))
	}
	return setOf(all...)
}

// A name that many ask for at once is matched once: the others wait and take over the hits.
func TestOneMatchesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := setOf(Compile(Meta{Name: "p"}, Spec{Rules: []Rule{deny("a")}}))
		give := set.held(t)
		var answer string
		go func() { answer = set.ask("shop", "a", "", metric.Reader{}) }()
		synctest.Wait() // it has not found the name
		set.current.Load().memory.keep(question{"", metric.Expression{Name: "a"}, false}, verdict{}, "shop")
		give()
		if synctest.Wait(); answer != "allowed" {
			t.Errorf("%s: it was matched again", answer)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	ask := Request{Namespace: "shop", Expression: metric.ParseExpression("jobs_waiting:last"), Selector: of("queue=mail")}
	for name, set := range map[string]*Set{
		"none": New(time.Minute),
		"one":  setOf(Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{only("jobs.*", "queue", "mail")}})),
		"16":   manyPolicies(16),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := set.Check(ask); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("16-new-name", func(b *testing.B) {
		set := manyPolicies(16)
		for i := 0; b.Loop(); i++ {
			set.matching = newMatching() // which owes nothing
			ask.Expression.Name = fmt.Sprint(strings.Repeat("x", 100), i)
			if err := set.Check(ask); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The most that policies of a namespace cost for one series of a page.
func BenchmarkMayHave(b *testing.B) {
	var all []*Policy
	for i := range maxLabelsTogether / 32 {
		selector, subjects := &Selector{}, []Subject{{"User", "jane", ""}}
		for j := range 32 {
			selector.MatchExpressions = append(selector.MatchExpressions, Requirement{fmt.Sprint("key", i, j), DoesNotExist, nil})
			subjects = append(subjects[:j], Subject{"ServiceAccount", fmt.Sprint("robot", j), "shop"}, subjects[j])
		}
		all = append(all, Compile(Meta{"shop", fmt.Sprint("p", i), time.Unix(int64(i), 0)},
			Spec{Rules: []Rule{{Metric: ".*", Selector: selector}}, Subjects: subjects[1:]}))
	}
	set, labels := setOf(all...), []metric.Label{}
	for i := range 60 {
		labels = append(labels, metric.Label{Key: fmt.Sprint(strings.Repeat("k", 60), i), Value: strings.Repeat("v", 60)})
	}
	for b.Loop() {
		if !(ReaderView{set, metric.Reader{User: "jane"}}).MayHaveKind("shop", "a", metric.Timer, metric.NewLabels(labels).Selectable()) {
			b.Fatal("the cases say nothing")
		}
	}
}

// A read that no policy touches costs an atomic load.
func TestACheckWithoutPoliciesAllocatesNothing(t *testing.T) {
	set, ask := New(time.Minute), Request{Namespace: "shop", Expression: metric.ParseExpression("jobs:last"), Selector: of("queue=mail")}
	if n := testing.AllocsPerRun(100, func() {
		if err := set.Check(ask); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
