package push

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
)

// A policy restricts reading of external metrics by path and on the page of all series, alike.
func TestPoliciesRestrictReading(t *testing.T) {
	set := policy.New(time.Minute)
	h := start(t, func(_ *Config, parts *Parts) { parts.Policies = set })
	h.wants(200, "", "PUT", "/v1/namespaces/shop/external/secret", "1")
	h.wants(200, "", "PUT", "/v1/namespaces/shop/external/jobs?label=queue=mail", "2")
	h.wants(200, "", "PUT", "/v1/namespaces/shop/external/jobs?label=queue=fax", "3")
	h.wants(200, "", "PUT", "/v1/namespaces/shop/pods/web-1/secret", "4")
	set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{Rules: []policy.Rule{
		{Metric: "secret", Deny: true},
		{Metric: "jobs", Selector: &policy.Selector{MatchLabels: map[string]string{"queue": "mail"}}},
	}})})

	h.wants(403, `"policy"`, "GET", "/v1/namespaces/shop/external/secret", "")
	h.wants(403, `the external metric \"secret:last\" is denied by rules[0] of externalmetricpolicy/ours in the namespace shop`,
		"GET", "/v1/namespaces/shop/external/secret:last", "")
	h.wants(403, `must be asked for with a selector within \"queue=mail\", by rules[1]`, "GET", "/v1/namespaces/shop/external/jobs", "")
	h.wants(403, "rules[1]", "GET", "/v1/namespaces/shop/external/jobs?label=queue=fax", "")
	h.wants(200, `"value":2`, "GET", "/v1/namespaces/shop/external/jobs?label=queue=mail", "")
	h.wants(200, `"value":4`, "GET", "/v1/namespaces/shop/pods/web-1/secret", "")

	want := "# TYPE jobs gauge\njobs{namespace=\"shop\",queue=\"mail\"} 2\n# TYPE secret gauge\nsecret{namespace=\"shop\",pod=\"web-1\"} 4\n"
	if got := (gateway{h}).page(""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The groups of Pushgateway clients are read as other series are: of external metrics, those that a policy
// denies are left out. Push times are the groups' own.
func TestPoliciesRestrictGroups(t *testing.T) {
	set := policy.New(time.Minute)
	h := start(t, func(_ *Config, parts *Parts) { parts.Policies = set })
	const text = "# TYPE secret gauge\nsecret 41\n# TYPE open gauge\nopen 42\n# TYPE jobs gauge\njobs{queue=\"mail\"} 43\njobs{queue=\"fax\"} 44\n" +
		"# TYPE took summary\ntook_sum 45\ntook_count 1\n# TYPE done counter\ndone 46\n"
	h.wants(200, "", "PUT", "/metrics/job/j/namespace/shop", text)
	h.wants(200, "", "PUT", "/metrics/job/j/namespace/shop/sluice_object/pods%2Fweb-1", "secret 47\n")
	set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{Rules: []policy.Rule{
		{Metric: "secret", Deny: true},
		{Metric: "jobs", Selector: &policy.Selector{MatchLabels: map[string]string{"queue": "mail"}}},
		{Metric: "took:p99", Deny: true}, // the page has all of a timer
		{Metric: "done:rate", Deny: true},
	}})})
	for path, number := range map[string]string{"/metrics": " %d\n", "/api/v1/metrics": `"%d"`} {
		_, body := (gateway{h}).ask("GET", path, "")
		for value, want := range map[int]bool{41: false, 42: true, 43: true, 44: false, 45: false, 46: true, 47: true} {
			if got := strings.Contains(body, fmt.Sprintf(number, value)); got != want {
				t.Errorf("%s has %d: %v\n%s", path, value, got, body)
			}
		}
		if !strings.Contains(body, "push_time_seconds") {
			t.Errorf("%s: no push times", path)
		}
	}
}

// A policy with subjects is for the account of the request.
func TestPoliciesOfAccounts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		set := policy.New(time.Minute)
		h, _ := startTown(t, func(_ *Config, parts *Parts) { parts.Policies = set })
		h.table.series[key{object: metric.Object{Namespace: "shop"}, name: "m"}] = &entry{kind: metric.Gauge, whole: 1}
		for account, code := range map[string]int{"till": 403, "other": 200} {
			set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{
				Subjects: []policy.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: account}},
				Rules:    []policy.Rule{{Metric: ".*", Deny: true}},
			})})
			h.wants(code, "", "GET", "/v1/namespaces/shop/external/m", "", asShop...)
		}
	})
}
