package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// slowRules are as many as a policy may have, of slow expressions that match nothing.
var slowRules = sync.OnceValue(func() *Policy {
	spec := Spec{}
	for j := range maxRules {
		spec.Rules = append(spec.Rules, deny(fmt.Sprintf("(x+x+)+y|(a|aa)+b%d|.*.*.*=", j)))
	}
	return Compile(Meta{}, spec)
})

// slow is a policy of slow rules.
func slow(namespace, name string, created int64) *Policy {
	p := *slowRules()
	p.Meta = Meta{Namespace: namespace, Name: name, Created: time.Unix(created, 0)}
	return &p
}

// held takes the turn to match, until the function is called.
func (s *Set) held(t *testing.T) (give func()) {
	_ = s.matching.expressions.Await(t.Context(), "first")
	return func() { s.matching.expressions.Give("first") }
}

func (m *matching) forgive(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.debts.Add(namespace, -m.debts.Of(namespace))
}

// A reader that waits to match a name is answered by the policies of that moment, and readers of former
// policies don't match beside those of the present ones.
func TestWaitingReadersTakeTheNewestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := setOf(Compile(Meta{Name: "p"}, Spec{Rules: []Rule{deny("a")}}))
		give := set.held(t)
		var waiting sync.WaitGroup
		answers := make([]string, 2)
		waiting.Go(func() { answers[0] = set.ask("shop", "a", "", metric.Reader{}) })
		waiting.Go(func() { answers[1] = set.ask("shop", "b", "", metric.Reader{}) })
		synctest.Wait()
		set.Replace([]*Policy{Compile(Meta{Name: "q"}, Spec{Rules: []Rule{deny("b")}})})
		give()
		waiting.Wait()
		if answers[0] != "allowed" || answers[1] != "q 0" {
			t.Errorf("answers %q", answers)
		}
	})
}

// A change in a namespace drops the verdicts of that namespace, one of the cluster's policies all. Of
// unchanged policies above the bound the closed ones stay, too.
func TestVerdictsOfOtherNamespacesStay(t *testing.T) {
	cluster := Compile(Meta{Name: "all"}, Spec{Rules: []Rule{deny("gone")}})
	shop, bank := Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny("a")}}), Compile(Meta{Namespace: "bank", Name: "p"}, Spec{Rules: []Rule{deny("a")}})
	var many []*Policy
	for i := range MaxRulesTogether/maxRules + 2 {
		many = append(many, slow("large", fmt.Sprint("p", i), int64(i)))
	}
	with := func(more ...*Policy) []*Policy { return slices.Concat(many, more) }
	set := setOf(with(cluster, shop, bank)...)
	ask := func() {
		for _, namespace := range []string{"shop", "bank", "none", "large"} {
			set.ask(namespace, "a", "", metric.Reader{})
			set.matching.forgive(namespace)
		}
	}
	kept := func() (names []string) {
		m := set.current.Load().memory
		m.mu.Lock()
		defer m.mu.Unlock()
		for q := range m.verdicts {
			names = append(names, cmp.Or(q.namespace, "(cluster)")) // sorted before names
		}
		slices.Sort(names)
		return names
	}
	ask()
	other := Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny("b")}})
	for _, one := range []struct {
		says     string
		policies []*Policy
		kept     string
	}{
		{"nothing changed", with(cluster, shop, bank), "(cluster) bank large shop"}, // the cluster's is that of none
		{"another policy of shop", with(bank, other, cluster), "(cluster) bank large"},
		{"another policy of the cluster", with(other, bank, Compile(Meta{Name: "all"}, Spec{Rules: []Rule{deny("c")}})), ""},
		{"the first of none", with(other, bank, Compile(Meta{Namespace: "none", Name: "p"}, Spec{Rules: []Rule{deny("a")}})), ""},
	} {
		ask()
		set.Replace(one.policies)
		if got := strings.Join(kept(), " "); got != one.kept {
			t.Errorf("%s: kept %q, want %q", one.says, got, one.kept)
		}
	}
	ask()
	set.Replace(with(other, bank))
	if got := strings.Join(kept(), " "); got != "bank large shop" {
		t.Errorf("the last of none: kept %q", got)
	}
	if got := set.ask("none", "a", "", metric.Reader{}) + set.ask("shop", "b", "", metric.Reader{}) + set.ask("large", "z", "", metric.Reader{}); got != "allowedp 0p16 0" {
		t.Errorf("then %s", got)
	}
}

// A name is matched with the cluster's policies once for all namespaces. A namespace without
// policies of its own has no verdicts of its own, and where no policy counts there are none.
func TestTheClusterIsAskedOnceForAllNamespaces(t *testing.T) {
	cluster := Compile(Meta{Name: "all"}, Spec{Rules: []Rule{deny("secret")}})
	shop := Compile(Meta{Namespace: "shop", Name: "ours"}, Spec{Rules: []Rule{deny("jobs")}})
	set := setOf(cluster, shop)
	g := set.current.Load()
	for _, namespace := range []string{"bank", "none", ""} {
		if got := set.ask(namespace, "secret", "", metric.Reader{}); got != "all 0" {
			t.Errorf("in %q: %s", namespace, got)
		}
	}
	if len(g.memory.verdicts) != 1 {
		t.Errorf("%d verdicts, want that of the cluster", len(g.memory.verdicts))
	}
	g.memory.verdicts[question{"", metric.Expression{Name: "secret"}, false}] = remembered{} // as if the cluster said nothing
	if got := set.ask("shop", "secret", "", metric.Reader{}); got != "allowed" {
		t.Errorf("%s: the cluster's rules were matched again", got)
	}
	set.Replace([]*Policy{shop})
	if g = set.current.Load(); set.ask("bank", "jobs", "", metric.Reader{}) != "allowed" || len(g.memory.verdicts) != 0 {
		t.Errorf("%d verdicts where no policy counts", len(g.memory.verdicts))
	}
	defer set.held(t)()
	if got := set.ask("bank", "other", "", metric.Reader{}); got != "allowed" { // it waits for nobody
		t.Error(got)
	}
}

// A reader waits for a slice of one name of another namespace at most, not for all that its readers
// invent. Of these, some wait, and the others are told at once that nothing is decided.
func TestNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := setOf(slow("noisy", "slow", 1), Compile(Meta{Namespace: "shop", Name: "ours"}, Spec{Rules: []Rule{deny("jobs")}}))
		give := set.held(t)
		var undecided, matched atomic.Int64
		var readers sync.WaitGroup
		for i := range 100 {
			readers.Go(func() {
				if set.ask("noisy", fmt.Sprint(strings.Repeat("x", 100), i), "", metric.Reader{}) == "undecided" {
					undecided.Add(1)
				} else {
					matched.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := undecided.Load(); n != 100-maxLine {
			t.Errorf("%d of 100 readers were told at once that nothing is decided", n)
		}
		var before int64
		readers.Go(func() {
			if got := set.ask("shop", "jobs", "", metric.Reader{}); got != "ours 0" {
				t.Error(got)
			}
			before = matched.Load()
		})
		synctest.Wait()
		give()
		readers.Wait()
		if before > 1 || matched.Load() != maxLine {
			t.Errorf("a reader of another namespace waited for %d of %d names", before, matched.Load())
		}
		if n := set.matching.line.Len() + set.matching.expressions.Free(); n != 1 {
			t.Errorf("something is left of the line: %d", n)
		}
	})
}

// A reader waits for a name for a second at most. Then the name is not decided: it is denied, hidden,
// and taken for one that policies name.
func TestNobodyWaitsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := setOf(Compile(Meta{Name: "p"}, Spec{Rules: []Rule{deny("x")}}))
		other, _ := set.matching.begin("shop")
		began := time.Now()
		if err := set.Check(Request{Namespace: "shop", Expression: metric.Expression{Name: "a"}}); !errors.Is(err, metric.ErrNotReady) {
			t.Errorf("%v, want that it is not decided", err)
		}
		if set.MayHave("shop", []metric.Expression{{Name: "a"}}, nil, metric.Reader{}) {
			t.Error("it is decided")
		}
		if governed, err := set.Governs("shop", metric.Expression{Name: "a"}); !governed || !errors.Is(err, metric.ErrNotReady) {
			t.Errorf("it is decided: %v, %v", governed, err)
		}
		if waited := time.Since(began); waited != 3*patience {
			t.Errorf("three questions waited for %s", waited)
		}
		other.end()
		other, _ = set.matching.begin("")
		if !set.Hidden("a", false) {
			t.Error("discovery lists what is not decided")
		}
		if other.end(); set.Hidden("a", false) || set.ask("shop", "a", "", metric.Reader{}) != "allowed" {
			t.Error("it is not decided afterwards")
		}
	})
}

// A namespace whose names take long has a tenth of the time. Names that are decided, and other
// namespaces, don't wait.
func TestANamespaceHasATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := setOf(Compile(Meta{Name: "p"}, Spec{Rules: []Rule{deny("x")}}))
		matched := func(took time.Duration) {
			one, err := set.matching.begin("noisy")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(took)
			one.end()
		}
		if matched(time.Minute); set.matching.debts.Of("noisy") != longestSlice {
			t.Errorf("the time of other processes is charged: %s", set.matching.debts.Of("noisy"))
		}
		set.ask("noisy", "known", "", metric.Reader{})
		slices := 1
		for ; set.matching.debts.Of("noisy") < maxDebt; slices++ {
			matched(longestSlice)
		}
		for namespace, want := range map[string]string{"noisy": "undecided", "shop": "allowed"} {
			if got := set.ask(namespace, "new of "+namespace, "", metric.Reader{}); got != want {
				t.Errorf("in %s: %s, want %s", namespace, got, want)
			}
		}
		if got := set.ask("noisy", "known", "", metric.Reader{}); got != "allowed" {
			t.Errorf("a name that is decided: %s", got)
		}
		time.Sleep(parts * longestSlice)
		if got := set.ask("noisy", "new of noisy", "", metric.Reader{}); got != "allowed" {
			t.Errorf("after %d slices, when one is paid: %s", slices, got)
		}
	})
}

// Whoever waits to match a name has a turn before a slow one of another namespace ends: before each match of an
// expression with a name.
func TestALongMatchLetsOthersIn(t *testing.T) {
	yields, names := 0, spellingsOf(metric.Expression{Name: "x"}, time.Minute)
	slow("noisy", "slow", 1).first(names, func() { yields++ })
	if all := len(slices.Concat(append(names.groups, names.shared)...)); yields != maxRules*all {
		t.Errorf("%d yields in %d rules and %d names", yields, maxRules, all)
	}
	synctest.Test(t, func(t *testing.T) {
		set := setOf(Compile(Meta{Namespace: "shop", Name: "ours"}, Spec{Rules: []Rule{deny("jobs")}}))
		long, _ := set.matching.begin("noisy")
		defer long.end()
		var got string
		go func() { got = set.ask("shop", "jobs", "", metric.Reader{}) }()
		synctest.Wait()
		for _, want := range []string{"", "ours 0"} {
			time.Sleep(slice / 2)
			long.yield()
			if synctest.Wait(); got != want {
				t.Errorf("the answer is %q, want %q", got, want)
			}
		}
	})
}

// The verdict of many policies is that of each one by itself, whatever was asked before.
func TestPoliciesTogetherAllowWhatEachAllows(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	said := map[string]int{}
	for range 300 {
		var all []*Policy
		for i := range 1 + random.IntN(6) {
			spec := Spec{}
			for range 1 + random.IntN(3) {
				pattern := pick("a", "b", "a.*", ".*:last", "[^:]*", "b:mean:1m")
				if spec.Rules = append(spec.Rules, deny(pattern)); random.IntN(3) > 0 {
					spec.Rules[len(spec.Rules)-1] = only(pattern, "x", "y")
				}
			}
			if random.IntN(3) == 0 {
				spec.Subjects = []Subject{{"User", pick("joe", "jane"), ""}}
			}
			all = append(all, Compile(Meta{pick("", "shop", "bank"), fmt.Sprint("p", i), time.Unix(int64(i), 0)}, spec))
		}
		set := setOf(all...)
		for range 40 {
			namespace, name, selector := pick("shop", "bank", "none"), pick("a", "a:last", "b", "b:mean", "ab", "c"), pick("", "x=y")
			reader := metric.Reader{User: pick("joe", "jane", "jim")}
			want := "allowed"
			for _, policy := range all {
				if setOf(policy).ask(namespace, name, selector, reader) != "allowed" {
					want = "denied"
				}
			}
			set.Hidden(name, false)
			got := set.ask(namespace, name, selector, reader)
			if said[want]++; (got == "allowed") != (want == "allowed") {
				t.Fatalf("%s %s {%s} by %s: %s, want %s", namespace, name, selector, reader.User, got, want)
			}
		}
	}
	if said["allowed"] < 500 || said["denied"] < 500 {
		t.Errorf("the cases say little: %v", said)
	}
}

// A verdict has no more than what decides: the first denial for everybody.
func TestAVerdictEndsAtADenial(t *testing.T) {
	var all []*Policy
	for i := range 1000 {
		all = append(all, slow("shop", fmt.Sprintf("p%04d", i), int64(i)))
	}
	set := setOf(all...)
	if got := set.ask("shop", "a", "", metric.Reader{}); got != "p0016 0" {
		t.Errorf("%s, want the first policy above the bound", got)
	}
	if hits := set.current.Load().memory.verdicts[question{"shop", metric.Expression{Name: "a"}, false}].hits; len(hits) != 1 {
		t.Errorf("the verdict has %d rules, want 1", len(hits))
	}
	joe := Compile(Meta{Namespace: "bank", Name: "joes"}, Spec{Subjects: []Subject{{"User", "joe", ""}}, Rules: []Rule{deny("a")}})
	set.Replace([]*Policy{joe, Compile(Meta{Namespace: "bank", Name: "other"}, Spec{Rules: []Rule{deny("a")}})})
	if got := set.ask("bank", "a", "", metric.Reader{User: "joe"}) + set.ask("bank", "a", "", metric.Reader{User: "jane"}); got != "joes 0other 0" {
		t.Errorf("after a denial for one reader: %s", got)
	}
}

// While policies change, thirty readers of names that nobody asked for before never read what is
// denied throughout, and always read what is allowed throughout.
func TestChangesOpenAndCloseNothingElse(t *testing.T) {
	var fixed []*Policy
	for i := range 1000 { // 64,000 rules; those of a namespace are bounded
		fixed = append(fixed, slow(fmt.Sprint("tenant", i%100), fmt.Sprint("p", i), int64(i)))
	}
	fixed = append(fixed, Compile(Meta{Name: "cluster"}, Spec{Rules: []Rule{deny("secret.*")}}),
		Compile(Meta{Namespace: "shop", Name: "shop"}, Spec{Rules: []Rule{only("jobs.*", "queue", "mail")}}))
	set := setOf(fixed...)
	var ended atomic.Bool
	var readers sync.WaitGroup
	var reads atomic.Int64
	for i := range maxLine - 2 {
		readers.Go(func() {
			for n := 0; !ended.Load(); n++ {
				reads.Add(1)
				name := fmt.Sprint(i, "_", n)
				for _, one := range [][3]string{{"secret" + name, "", "cluster 0"}, {"jobs" + name, "", "shop 0"}, {"jobs" + name, "queue=mail", "allowed"}, {"open" + name, "", "allowed"}} {
					if got := set.ask("shop", one[0], one[1], metric.Reader{}); got != one[2] && got != "undecided" {
						t.Errorf("%v: %s", one, got)
						return
					}
				}
			}
		})
	}
	decided := func(name string) (got string) {
		for got = "undecided"; got == "undecided"; {
			set.matching.forgive("shop")
			got = set.ask("shop", name, "", metric.Reader{})
		}
		return got
	}
	for range 150 {
		time.Sleep(5 * time.Millisecond) // lets the readers run
		flapping := Compile(Meta{Namespace: "shop", Name: "flapping", Created: time.Unix(1e9, 0)}, Spec{Rules: []Rule{deny("flapping.*")}})
		set.Replace(append(slices.Clone(fixed), flapping))
		if got := decided("flapping"); got != "flapping 0" {
			t.Errorf("a new policy: %s", got)
		}
		set.Replace(fixed)
		if got := decided("flapping"); got != "allowed" {
			t.Errorf("a policy that is gone: %s", got)
		}
	}
	ended.Store(true)
	readers.Wait()
	t.Logf("%d rounds of readers", reads.Load())
}
