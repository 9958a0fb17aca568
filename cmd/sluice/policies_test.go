package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
)

// HTTP push answers before the API server does. Until the policies are known, it gives out no external
// metric.
func TestUnknownPoliciesDeny(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t)
	const secret = "/v1/namespaces/shop/external/secret"
	if code, text := spoken(t, p, "PUT", secret, "7"); code != http.StatusOK {
		t.Fatal(code, text)
	}
	for _, path := range []string{secret, "/metrics/series"} {
		if code, text := spoken(t, p, "GET", path, ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "namespaces") {
			t.Errorf("GET %s before the namespaces are known: %d %s", path, code, text)
		}
	}
	p.cluster.compared.Store(true)
	if code, text := spoken(t, p, "GET", secret, ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "policies") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := spoken(t, p, "GET", "/metrics/series", ""); code != http.StatusOK || strings.Contains(text, "secret") {
		t.Errorf("%d %s", code, text)
	}
}

// samplePolicies are one of the cluster, one of shop for two readers, and one with faults.
func samplePolicies() *policy.Set {
	set := policy.New(time.Minute)
	long := &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "team", Operator: policy.In, Values: strings.Split(strings.Repeat("large,", 99)+"a", ",")}}}
	set.Replace([]*policy.Policy{
		policy.Compile(policy.Meta{Name: "all"}, policy.Spec{Rules: []policy.Rule{{Metric: "secret[.].*", Deny: true}}}),
		policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{
			Subjects: []policy.Subject{{Kind: "Group", Name: "shop"}, {Kind: "ServiceAccount", Namespace: "shop", Name: "robot"}},
			Rules: []policy.Rule{{Metric: "queue_.*", Selector: &policy.Selector{MatchLabels: map[string]string{"team": "shop"}}},
				{Metric: "jobs", Selector: long}, {Metric: "depth", Selector: &policy.Selector{}}}}),
		policy.Compile(policy.Meta{Namespace: "shop", Name: "wrong"}, policy.Spec{Rules: []policy.Rule{{Metric: "a(", Deny: true}}}),
		policy.Unreadable(policy.Meta{Namespace: "bank", Name: "broken"}, errors.New(strings.Repeat("ü", 4096))),
	})
	return set
}

func TestListedPolicies(t *testing.T) {
	i := inspection{policies: samplePolicies().Policies}
	first := i.Policies(inspect.Query{Most: 3})
	rest := i.Policies(inspect.Query{Most: 3, After: first.Next})
	if len(first.Items) != 3 || len(rest.Items) != 1 || rest.Next != (inspect.Key{}) {
		t.Fatalf("pages of %d and %d policies", len(first.Items), len(rest.Items))
	}
	all := append(first.Items, rest.Items...)
	for n, want := range [][]string{
		{"all", "all", "1", "Accepted", "secret[.].*: deny"},
		{"broken", "all", "1", "Faulty", "every metric: deny (fault)"},
		{"ours", "Group:shop, ServiceAccount:shop:robot", "3", "Accepted", "queue_.*: within team=shop; jobs: within team in (large"},
		{"wrong", "all", "1", "Faulty", "every metric: deny (fault)"},
	} {
		cells := all[n].Cells(time.Now())
		if got := strings.Join(cells, " | "); !strings.HasPrefix(got, strings.Join(want, " | ")) {
			t.Errorf("%s; want %s", got, want)
		}
		if n == 2 && !strings.HasSuffix(cells[len(cells)-1], "; depth: allow") {
			t.Errorf("%s; want the empty selector as one that allows", cells[len(cells)-1])
		}
		for _, rule := range all[n].Rules {
			for _, text := range []string{rule.Selector, rule.Fault} {
				if len(text) > inspect.PolicyText+len("... (8213 bytes)") || !utf8.ValidString(text) {
					t.Errorf("%d bytes: %q", len(text), text)
				}
			}
		}
	}
	if shop := i.Policies(inspect.Query{Namespace: "shop"}); len(shop.Items) != 2 {
		t.Errorf("of shop: %+v", shop.Items)
	}
	if none := (inspection{}).Policies(inspect.Query{}); len(none.Items) > 0 {
		t.Errorf("standalone: %+v", none)
	}
}
