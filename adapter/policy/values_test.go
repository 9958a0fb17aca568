package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// The domain of the enumeration: what a label may be, absent among it. Every value that the
// generated requirements name is there, and some more.
var domain = []string{"", "a", "b", "c", "1", "2", "3", "+2", "-1", "-3", "007", "2/", "zz"}

// picks reports whether a requirement picks a label, as Kubernetes evaluates it
// (k8s.io/apimachinery/pkg/labels, Requirement.Matches).
func picks(r Requirement, value string, present bool) bool {
	spelt := metric.SelectorValue(value)
	in := func() bool {
		return slices.Contains(r.Values, spelt)
	}
	switch r.Operator {
	case In:
		return present && in()
	case NotIn:
		return !present || !in()
	case Exists:
		return present
	case DoesNotExist:
		return !present
	}
	if !present {
		return false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	bound, badBound := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil || badBound != nil {
		return false
	}
	return r.Operator == GreaterThan && n > bound || r.Operator == LessThan && n < bound
}

func picksAll(list []Requirement, key, value string, present bool) bool {
	for _, r := range list {
		if r.Key == key && !picks(r, value, present) {
			return false
		}
	}
	return true
}

// brute decides the implication by enumeration, label by label: a label set is picked if each
// label is, and labels are independent.
func brute(query, allowed []Requirement) bool {
	keys := map[string]bool{}
	for _, r := range append(append([]Requirement{}, query...), allowed...) {
		keys[r.Key] = true
	}
	within := true
	for key := range keys {
		some, escapes := false, false
		for i := -1; i < len(domain); i++ {
			value := ""
			if i >= 0 {
				value = domain[i]
			}
			if picksAll(query, key, value, i >= 0) {
				some = true
				escapes = escapes || !picksAll(allowed, key, value, i >= 0)
			}
		}
		if !some {
			return true // the query picks nothing
		}
		within = within && !escapes
	}
	return within
}

func randomRequirements(next func(int) int, operators []Operator) []Requirement {
	spelt := []string{"", "a", "b", "c", "1", "2", "3"}
	var list []Requirement
	for range next(4) {
		r := Requirement{Key: []string{"x", "y"}[next(2)], Operator: operators[next(len(operators))]}
		switch r.Operator {
		case In, NotIn:
			for range 1 + next(3) {
				r.Values = append(r.Values, spelt[next(len(spelt))])
			}
		case GreaterThan, LessThan:
			r.Values = []string{[]string{"-2", "0", "1", "2", "x", "9223372036854775807", "-9223372036854775808"}[next(7)]}
		}
		list = append(list, r)
	}
	return list
}

var ofPolicies = []Operator{In, NotIn, Exists, DoesNotExist}

// The implication is exact for the operators that policies have, and errs on the side of refusal
// for comparisons.
func TestImplicationIsThatOfEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	yes, no := 0, 0
	for range 200_000 {
		query, allowed := randomRequirements(rng.IntN, ofPolicies), randomRequirements(rng.IntN, ofPolicies)
		if got, want := constraintOf(query).within(constraintOf(allowed)), brute(query, allowed); got != want {
			t.Fatalf("%v within %v: %v, want %v", query, allowed, got, want)
		} else if got {
			yes++
		} else {
			no++
		}
	}
	if yes < 10_000 || no < 10_000 {
		t.Errorf("%d within, %d not: the cases say little", yes, no)
	}
}

// Comparisons of requests never widen: whatever is within by the sets is within by enumeration.
func TestComparisonsNeverWiden(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	within, lost := 0, 0
	for range 200_000 {
		query := randomRequirements(rng.IntN, append([]Operator{GreaterThan, LessThan}, ofPolicies...))
		allowed := randomRequirements(rng.IntN, ofPolicies)
		got, want := constraintOf(query).within(constraintOf(allowed)), brute(query, allowed)
		if got && !want {
			t.Fatalf("%v within %v: true, want false", query, allowed)
		}
		if want {
			within++
		}
		if want && !got {
			lost++
		}
	}
	t.Logf("%d of %d are refused though the enumeration allows them", lost, within)
	if lost > within/4 {
		t.Errorf("%d of %d are refused though the enumeration allows them", lost, within)
	}
}

// A comparison leaves out its bound, and only that. A label's value 6 may stand for -6.
func TestComparisonsLeaveOutTheirBound(t *testing.T) {
	for _, c := range []struct {
		operator     Operator
		bound, value string
		within       bool
	}{{GreaterThan, "5", "5", true}, {GreaterThan, "5", "6", false}, {LessThan, "-5", "5", true}, {LessThan, "-5", "6", false}} {
		query := constraintOf([]Requirement{{Key: "shard", Operator: c.operator, Values: []string{c.bound}}})
		without := constraintOf([]Requirement{{Key: "shard", Operator: NotIn, Values: []string{c.value}}})
		if got := query.within(without); got != c.within {
			t.Errorf("%v %s within all but %s: %v, want %v", c.operator, c.bound, c.value, got, c.within)
		}
	}
}

func FuzzImplication(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x01\x01\x01\x00\x00\x01\x01"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		next := func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}
		query, allowed := randomRequirements(next, ofPolicies), randomRequirements(next, ofPolicies)
		if got, want := constraintOf(query).within(constraintOf(allowed)), brute(query, allowed); got != want {
			t.Errorf("%v within %v: %v, want %v", query, allowed, got, want)
		}
	})
}

func ExampleSet_Check() {
	set := New(0)
	set.Replace([]*Policy{Compile(Meta{Namespace: "shop", Name: "queues"}, Spec{Rules: []Rule{
		{Metric: "jobs_.*", Selector: &Selector{MatchLabels: map[string]string{"team": "mail"}}},
	}})})
	err := set.Check(Request{Namespace: "shop", Expression: metric.ParseExpression("jobs_waiting:last")})
	fmt.Println(strings.Replace(err.Error(), ", ", ",\n", 1))
	// Output: the external metric "jobs_waiting:last" must be asked for with a selector within "team=mail",
	// by rules[0] of externalmetricpolicy/queues in the namespace shop
}
