package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// policySameVerdicts compares admission with the server: random policies, and for each random
// autoscalers. They must agree but for the differences in docs/policy.md: a selector that contradicts
// itself on another label selects nothing, which the server allows.
func policySameVerdicts(t *testing.T, p *policed) {
	random := rand.New(rand.NewPCG(3, 63))
	controller := p.As(t, "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
		"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
	alice := p.reader(t, "alice")
	admitted, refused, differ := 0, 0, 0
	for i := range 20 {
		ns := p.namespaceWith(t, fmt.Sprintf("same%d", i))
		rules := randomPolicy(random)
		spec := specOfRules(rules)
		p.apply(t, ns, "guard", spec)
		wantAdmit(t, alice, ns, asking("web", "known", ""), "is denied by")
		for n := range 30 {
			name, selector := randomName(random), randomRequest(random)
			if n%2 > 0 {
				name, selector = nearRequest(random, rules)
			}
			one := asking("web", name, "")
			one.Spec.Metrics[0].External.Metric.Selector = selector
			says := admit(t, alice, ns, one)
			text := metav1.FormatLabelSelector(selector)
			if text == "<none>" {
				text = ""
			}
			answered := query(t, controller, ns, name, text)
			switch {
			case (says == "") != (answered == "") && says != "" && contradicts(selector):
				differ++
			case (says == "") != (answered == ""):
				t.Errorf("%s {%s}, policy %s:\nadmission: %q\nserver: %q", name, text, spec, says, answered)
			case says == "":
				admitted++
			default:
				refused++
			}
		}
	}
	t.Logf("%d admitted, %d refused by both, %d selectors that contradict themselves", admitted, refused, differ)
	if admitted < 50 || refused < 50 {
		t.Error("the test does not see what it should")
	}
}

func oneOf(random *rand.Rand, list ...string) string { return list[random.IntN(len(list))] }

// randomRule is a rule of a policy. One without a selector denies.
type randomRule struct {
	Metric   string                `json:"metric"`
	Deny     bool                  `json:"deny,omitempty"`
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

func specOfRules(rules []randomRule) string {
	text, _ := json.Marshal(map[string]any{"rules": rules})
	return string(text)
}

// expressions are those of random rules, each with a name that it matches.
var expressions = map[string]string{"jobs": "jobs", "jobs.*": "jobs_waiting", "jobs:(max|mean):1m": "jobs:max", ".*:10s": "other:max:10s", "j[^:]*": "jobs",
	"jobs|mail": "mail", "mail:rate(:1m)?": "mail:rate", ".*:last": "jobs:last", "a/b": `a\|b`, "[a-i].*": `a\|b`}

// randomPolicy has one to three rules of few metrics, labels and values, so that many of them meet.
func randomPolicy(random *rand.Rand) []randomRule {
	rules := []randomRule{{Metric: "known", Deny: true}}
	for range 1 + random.IntN(3) {
		one := randomRule{Metric: oneOf(random, slices.Sorted(maps.Keys(expressions))...)}
		if one.Deny = random.IntN(4) == 0; !one.Deny {
			one.Selector = randomSelector(random)
		}
		rules = append(rules, one)
	}
	return rules
}

func randomSelector(random *rand.Rand) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if random.IntN(4) == 0 {
		out.MatchLabels = map[string]string{oneOf(random, "x", "w"): oneOf(random, "a", "b", "c")}
	}
	for range []int{1, 1, 2}[random.IntN(3)] {
		out.MatchExpressions = append(out.MatchExpressions, randomRequirement(random, oneOf(random, "x", "w"), "a", "b", "a,b", "b,c", "a,b,c"))
	}
	return out
}

// randomRequirement has one of the lists of values, if its operator has values.
func randomRequirement(random *rand.Rand, key string, lists ...string) metav1.LabelSelectorRequirement {
	one := metav1.LabelSelectorRequirement{Key: key,
		Operator: metav1.LabelSelectorOperator(oneOf(random, "In", "NotIn", "NotIn", "Exists", "DoesNotExist"))}
	if one.Operator == metav1.LabelSelectorOpIn || one.Operator == metav1.LabelSelectorOpNotIn {
		one.Values = strings.Split(oneOf(random, lists...), ",")
	}
	return one
}

// nearRequest asks for a metric of a rule just within its selector, or just outside of it: as the rule
// does, but for one value more or less, or another operator, of one of its requirements. Unrelated
// selectors are mostly refused for several reasons, so they would miss an error in one of them.
func nearRequest(random *rand.Rand, rules []randomRule) (name string, out *metav1.LabelSelector) {
	rule := rules[1+random.IntN(len(rules)-1)]
	name, out = expressions[rule.Metric], &metav1.LabelSelector{}
	if rule.Selector == nil {
		return name, randomRequest(random)
	}
	all := slices.Clone(rule.Selector.MatchExpressions)
	for key, value := range rule.Selector.MatchLabels {
		all = append(all, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	changed := random.IntN(len(all) + 1) // the last one: none
	for i, one := range all {
		if i == changed {
			one = nearRequirement(random, one)
		}
		out.MatchExpressions = append(out.MatchExpressions, one)
	}
	return name, out
}

// nearRequirement is a requirement with one value more or less, or of another operator.
func nearRequirement(random *rand.Rand, one metav1.LabelSelectorRequirement) metav1.LabelSelectorRequirement {
	values := slices.Clone(one.Values)
	switch n := random.IntN(4); {
	case n == 0 && len(values) > 1:
		at := random.IntN(len(values))
		one.Values = slices.Delete(values, at, at+1)
	case n == 1 && len(values) > 0:
		one.Values = append(values, "d")
	case n == 2 && len(values) > 0: // the other values of the test
		one.Values = slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(v string) bool { return slices.Contains(values, v) })
		one.Operator = map[metav1.LabelSelectorOperator]metav1.LabelSelectorOperator{"In": "NotIn", "NotIn": "In"}[one.Operator]
	default:
		one = randomRequirement(random, one.Key, "a", "a,b", "b,c", "a,b,c", "c,d")
	}
	return one
}

func randomName(random *rand.Rand) string {
	return oneOf(random, "jobs", "jobs", "jobs", "jobs_waiting", "mail", `a\|b`, "other", "known", "x:y") +
		oneOf(random, "", "", ":max", ":mean", ":rate", ":last", ":total") + oneOf(random, "", "", ":1m", ":60s", ":10s", ":120s")
}

func randomRequest(random *rand.Rand) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, key := range []string{"x", "w"} {
		if random.IntN(6) == 0 {
			out.MatchLabels = map[string]string{key: oneOf(random, "a", "b", "c")}
		}
		for range []int{0, 1, 1, 1, 2}[random.IntN(5)] {
			out.MatchExpressions = append(out.MatchExpressions, randomRequirement(random, key, "a", "a,b", "b,c", "a,b,c", "d"))
		}
	}
	return out
}

// contradicts reports whether no label set satisfies the selector: no value of one of its labels, of those
// that the test has, and not its absence either.
func contradicts(selector *metav1.LabelSelector) bool {
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false
	}
	values := []string{"", "a", "b", "c", "d", "e"} // "": absent
	for _, x := range values {
		for _, w := range values {
			set := labels.Set{}
			if x != "" {
				set["x"] = x
			}
			if w != "" {
				set["w"] = w
			}
			if matches.Matches(set) {
				return false
			}
		}
	}
	return true
}
