package labelselector

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// defined compares a label set with a selector by the definition: each requirement asks for its key by itself.
func defined(selector labels.Selector, set metric.Labels) bool {
	requirements, selectable := selector.Requirements()
	for i := range requirements {
		r := &requirements[i]
		exact := r.Operator() == selection.GreaterThan || r.Operator() == selection.LessThan
		if !r.Matches(lookedUp{set, exact}) {
			return false
		}
	}
	return selectable
}

type lookedUp struct {
	set   metric.Labels
	exact bool
}

func (l lookedUp) Has(key string) bool { _, ok := l.Lookup(key); return ok }

func (l lookedUp) Get(key string) string { v, _ := l.Lookup(key); return v }

func (l lookedUp) Lookup(key string) (value string, ok bool) {
	if value, ok = l.set.Get(key); !ok {
		for k, v := range l.set.All() {
			if metric.SelectorValue(k) == key {
				value, ok = v, true
				break
			}
		}
	}
	if !l.exact {
		value = metric.SelectorValue(value)
	}
	return value, ok
}

func compare(t *testing.T, text string, set metric.Labels) {
	t.Helper()
	selector, err := labels.Parse(text)
	if err != nil || selector.Empty() {
		return
	}
	if got, want := Matching(selector)(set), defined(selector, set); got != want {
		t.Fatalf("%q of %v: %v, want %v", text, set, got, want)
	}
}

func FuzzMatching(f *testing.F) {
	long := strings.Repeat("x", 80)
	f.Add("env=prod,path=api_v1", "env", "prod", "path", "/api/v1", "", "")
	f.Add("clash=plain,clash!=odd", "clash!", "odd", "clash", "plain", "clash/", "third")
	f.Add("clash=odd", "clash!", "odd", "clash/", "third", "/clash", "first")
	f.Add("cold<0,cold>-9,cold=5,cold", "cold", "-5", "", "", "warm", "5")
	f.Add("!a,a notin (),a!=b", "///", "a", "a", "", "b", "a")
	f.Add(long[:63]+"=v,app.kubernetes.io/name", long, "v", "app.kubernetes.io/name", long, long+"y", "w")
	f.Fuzz(func(t *testing.T, selector, key1, value1, key2, value2, key3, value3 string) {
		compare(t, selector, labelled(key1, value1, key2, value2, key3, value3))
	})
}

// Any requirements about a few keys that are near to each other select what the definition selects.
func TestMatchingAsDefined(t *testing.T) {
	keys := []string{"a", "a!", "/a", "a_b", "a/b", "a:b", "b", "-b", "", "//"}
	values := []string{"", "1", "2", "-1", "/1", "x", "x/y", "x_y"}
	pick := func(of []string) string { return of[rand.N(len(of))] }
	for range 5_000 {
		var pairs []string
		for range rand.N(5) {
			pairs = append(pairs, pick(keys), pick(values))
		}
		var all []string
		for range 1 + rand.N(4) {
			with := strings.NewReplacer("KEY", pick([]string{"a", "a_b", "a/b", "b"}), "VALUE", pick(values))
			all = append(all, with.Replace(pick([]string{"KEY", "!KEY", "KEY=VALUE", "KEY!=VALUE", "KEY in (VALUE,1)", "KEY notin (VALUE,1)",
				"KEY>1", "KEY<1"})))
		}
		compare(t, strings.Join(all, ","), labelled(pairs...))
	}
	many := "z=1"
	for i := range 2 * maxRequirements {
		many += fmt.Sprint(",!k", i)
	}
	compare(t, many, labelled("z", "1"))
}

// A selector of as many requirements as it may have, about keys that the labels don't have or about one, costs no allocation,
// be the labels as many and as long as they may be.
func TestLongLabelsCostNoAllocation(t *testing.T) {
	var pairs, absent, same []string
	for i := range 64 {
		pairs = append(pairs, fmt.Sprint(strings.Repeat("/", 500), strings.Repeat("k", 500), i), strings.Repeat("/v", 30))
		absent = append(absent, fmt.Sprint("!absent", i))
		same = append(same, fmt.Sprint(strings.Repeat("k", 63), "!=", i))
	}
	set := labelled(pairs...)
	for _, requirements := range [][]string{absent, same} {
		text := strings.Join(requirements, ",")
		match, err := MatchLabels(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(10, func() {
			if !match(set) {
				t.Error("not selected")
			}
		}); n != 0 {
			t.Errorf("%v allocations for %.100s…", n, text)
		}
	}
}
