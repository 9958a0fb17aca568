package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// The page of rules shows each rule's state and last value, and each policy's rules and faults.
func TestRulesAndPoliciesAreShown(t *testing.T) {
	f := &fakeSource{
		rules: []inspect.Rule{
			{Name: "per-second", Metric: "${1}_per_second", From: []string{"(.*)_total"}, State: inspect.RuleAccepted},
			{Namespace: "shop", Name: "busy", Metric: "busy_ratio", From: []string{"busy_workers"}, Expression: "busy / total", State: inspect.RuleAccepted,
				Operands: []inspect.RuleOperand{{Name: "busy", Metric: "busy_workers", Selector: "zone=a"}}, Value: "0.75",
				Of: inspect.Reference{Resource: "pods", Name: "web-1"}, Time: time.Now()},
			{Namespace: "shop", Name: "hidden", Metric: "hidden", Expression: "a", State: inspect.RulePushed, Message: "is pushed on pods"},
			{Namespace: "shop", Name: "wrong", Metric: "w", Expression: "totl", State: "Invalid", Message: "undeclared reference to 'totl'"},
		},
		policies: []inspect.Policy{
			{Name: "all", Rules: []inspect.PolicyRule{{Metric: "secret[.].*", Deny: true}}, State: inspect.PolicyAccepted},
			{Namespace: "shop", Name: "ours", Subjects: []string{"Group:shop"}, SubjectCount: 3, Rules: make([]inspect.PolicyRule, 14),
				State: inspect.PolicyFaulty, Faults: []string{"rules[0].metric is empty", "b", "c", "d"}},
		},
	}
	f.policies[1].Rules[0] = inspect.PolicyRule{Metric: "queue_.*", Selector: "team=shop"}
	s := running(t, f)
	_, body := get(t, s, "/rules")
	for _, want := range []string{`<a href="/rules" aria-current="page">Rules</a>`, "1 rule is refused", "1 policy has a fault", "busy / total",
		"busy = ", "with zone=a", "<b>0.75</b>", "web-1", `tag bad">Invalid<`, `tag warn">Pushed<`, "undeclared reference to", "renamed", "of the cluster",
		"secret[.].*</code> deny", "queue_", "within team=shop", "Group:shop and 2 more", "and 4 more: <code>sluice list policies", "rules[0].metric is empty",
		">and 1 more<", `data-live="/live/rules?"`} {
		if !strings.Contains(strings.ReplaceAll(body, "<wbr>", ""), want) {
			t.Errorf("no %q:\n%s", want, body)
		}
	}
	if n := strings.Count(body, `class="broken"`); n != 2 {
		t.Errorf("%d rows are broken, want 2", n)
	}
	if _, body := get(t, s, "/rules?namespace=shop"); strings.Contains(body, "per-second") || strings.Contains(body, "secret") {
		t.Errorf("rules of the cluster are on the page of a namespace:\n%s", body)
	}
	for i := range pageSize {
		f.rules = append(f.rules, inspect.Rule{Namespace: "many", Name: fmt.Sprintf("r%03d", i), State: inspect.RuleAccepted})
		f.policies = append(f.policies, inspect.Policy{Namespace: "many", Name: fmt.Sprintf("p%03d", i), State: inspect.PolicyAccepted})
	}
	_, body = get(t, s, "/rules")
	_, rest, _ := strings.Cut(body, `href="/rules?after=`)
	token, _, _ := strings.Cut(rest, `"`)
	if n := strings.Count(body, `<th scope="row"`); n != 2*pageSize || !strings.Contains(body, "sluice list policies -A") {
		t.Errorf("of many, %d rows", n)
	}
	if _, body := get(t, s, "/rules?after="+token); !strings.Contains(body, "undeclared reference") || !strings.Contains(body, "First page") {
		t.Errorf("the second page:\n%s", body)
	}
}

// Without rules and policies the page links to the documents that say how to write them.
func TestAnEmptyPageOfRules(t *testing.T) {
	s := running(t, &fakeSource{})
	if _, body := get(t, s, "/rules"); !containsAll(body, []string{"docs/rules.md", "docs/policy.md", "No rules", "No policies"}) {
		t.Errorf("%s", body)
	}
	alone := running(t, &fakeSource{}, func(p *Parts) { p.Facts, p.Begin = nil, nil })
	if _, body := get(t, alone, "/rules"); !strings.Contains(body, "without a cluster, so there are no policies") {
		t.Errorf("standalone:\n%s", body)
	}
}

// The page says that the policies are unknown, and why.
func TestUnknownPoliciesAreShown(t *testing.T) {
	f := &fakeSource{unknown: errors.New("may not read <the> policies"), policies: []inspect.Policy{{Name: "former"}}}
	_, body := get(t, running(t, f), "/rules")
	if !strings.Contains(body, "may not read &lt;the&gt; policies") || strings.Contains(body, "former") || strings.Contains(body, "No policies") {
		t.Errorf("%s", body)
	}
}
