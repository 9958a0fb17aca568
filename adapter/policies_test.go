package adapter

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// restricted has external metrics of the namespace shop, and policies about them.
func restricted(t *testing.T) (*api, Parts) {
	source := &memory{}
	for name, queue := range map[string]string{"jobs": "mail", "secret": "mail", "gone": "mail"} {
		source.put(held{object: metric.Object{Namespace: "shop"}, name: name, kind: metric.Gauge,
			labels: metric.NewLabels([]metric.Label{{Key: "queue", Value: queue}}), value: metric.Int(3), at: noon})
	}
	set := policy.New(time.Minute)
	set.Replace([]*policy.Policy{
		policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{Rules: []policy.Rule{
			{Metric: "secret", Deny: true},
			{Metric: "jobs", Selector: &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "queue", Operator: policy.In, Values: []string{"mail", "sms"}}}}},
		}}),
		policy.Compile(policy.Meta{Name: "all"}, policy.Spec{Rules: []policy.Rule{{Metric: "gone", Deny: true}}}),
	})
	parts := Parts{Source: source, Policies: set}
	a := running(t, prepared(t, parts, anonymousAccess()))
	a.waitReady(t)
	return a, parts
}

// The API answers 403 with the policy and the rule.
func TestPoliciesOfTheAPI(t *testing.T) {
	a, _ := restricted(t)
	for _, one := range []struct {
		path, selector string
		code           int
		words          string
	}{
		{"jobs", "", 403, `must be asked for with a selector within "queue in (mail,sms)", by rules[1] of externalmetricpolicy/ours in the namespace shop`},
		{"jobs", "queue=mail", 200, ""},
		{"jobs", "queue in (mail,sms)", 200, ""},
		{"jobs", "queue==mail,other!=x", 200, ""},
		{"jobs", "queue in (mail,fax)", 403, "rules[1]"},
		{"jobs", "queue!=fax", 403, "rules[1]"},
		{"jobs", "queue", 403, "rules[1]"},
		{"jobs", "queue>1", 403, "rules[1]"},
		{"jobs:last", "", 403, "rules[1]"},
		{"secret", "queue=mail", 403, `the external metric "secret" is denied by rules[0] of externalmetricpolicy/ours in the namespace shop`},
		{"secret:last", "", 403, "rules[0]"},
		{"gone", "", 403, "clusterexternalmetricpolicy/all"},
		{"unknown", "", 404, ""},
	} {
		path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/" + one.path
		if one.selector != "" {
			path += "?labelSelector=" + strings.NewReplacer(" ", "%20", "=", "%3D", "!", "%21", ">", "%3E", ",", "%2C").Replace(one.selector)
		}
		resp, body := a.get(t, path, "")
		if resp.StatusCode != one.code || !strings.Contains(string(body), strings.ReplaceAll(one.words, `"`, `\"`)) {
			t.Errorf("%s %s: %d, want %d\n%s", one.path, one.selector, resp.StatusCode, one.code, body)
		}
		if one.code == http.StatusForbidden {
			if s := status(t, body); s.Reason != metav1.StatusReasonForbidden {
				t.Errorf("%s: reason %s", one.path, s.Reason)
			}
		}
	}
}

// Discovery doesn't list a metric that the cluster denies to all.
func TestPoliciesHideFromDiscovery(t *testing.T) {
	a, _ := restricted(t)
	_, body := a.get(t, "/apis/external.metrics.k8s.io/v1beta1", "")
	for name, want := range map[string]bool{"jobs": true, "secret": true, "gone": false} {
		if got := strings.Contains(string(body), `"`+name+`"`); got != want {
			t.Errorf("%s is listed: %v", name, got)
		}
	}
}

// A question outside of HTTP, as KEDA's, has the same verdict.
func TestPoliciesOfQuestions(t *testing.T) {
	_, parts := restricted(t)
	reader := NewQuestionReader(parts)
	for selector, want := range map[string]bool{"": false, "queue=mail": true, "queue=fax": false} {
		if _, err := reader.Query(Question{Namespace: "shop", Metric: "jobs", Selector: selector}); (err == nil) != want {
			t.Errorf("%q: %v", selector, err)
		}
	}
}

// A question of a namespace reads nothing of another one, nor of objects that are in none, however the resource is spelled.
func TestQuestionsStayInTheirNamespace(t *testing.T) {
	m := shop()
	m.put(held{metric.Object{Resource: "namespaces", Name: "bank"}, "queue-length", metric.Gauge, labelled(), metric.Int(100), noon})
	reader := NewQuestionReader(Parts{Source: m, Cluster: newTown()})
	for _, one := range []struct {
		resource, object, metric string
		may                      bool
	}{
		{"namespaces", "shop", "queue-length", true},
		{"ingresses.networking.k8s.io", "main", "hits-per-second", true},
		{"namespaces", "bank", "queue-length", false},
		{"namespace", "bank", "queue-length", false},
		{"ns", "bank", "queue-length", false},
		{"namespaces", "*", "queue-length", false},
		{"nodes", "node-a", "temperature", false},
	} {
		query, err := reader.Query(Question{Namespace: "shop", Metric: one.metric, Resource: one.resource, Object: one.object})
		if err == nil {
			_, err = reader.Points(query)
		}
		if (err == nil) != one.may {
			t.Errorf("%s/%s: %v, want it to be allowed: %v", one.resource, one.object, err, one.may)
		}
	}
}

// KEDA computes with thousandths, as autoscalers do: what they are told is beyond that is an error for it, too.
func TestQuestionsBeyondWhatKEDACanCompute(t *testing.T) {
	m := shop()
	external := metric.Object{Namespace: "shop"}
	m.put(held{external, "nanoseconds", metric.Gauge, labelled(), metric.Int(1_700_000_000_000_000_000), noon},
		held{external, "huge", metric.Gauge, labelled("a", "1"), metric.Float(1e308), noon}, held{external, "huge", metric.Gauge, labelled("a", "2"), metric.Float(1e308), noon},
		held{external, "large", metric.Gauge, labelled(), metric.Float(9e15), noon})
	reader := NewQuestionReader(Parts{Source: m, Cluster: newTown()})
	for name, known := range map[string]bool{"nanoseconds": false, "huge": false, "large": true} {
		asked, err := reader.Ask(Question{Namespace: "shop", Metric: name}, nil)
		must(t, err)
		if v, err := asked.Value(); (err == nil) != known || !known && !errors.Is(err, metric.ErrUnknown) {
			t.Errorf("%s: %v, %v; want it known: %v", name, v.Float64(), err, known)
		}
	}
}

// A selector that selects nothing is within each rule.
func TestRequirementsOfNothing(t *testing.T) {
	_, parts := restricted(t)
	if err := checkPolicies(parts.Policies, "shop", "jobs", labels.Nothing(), metric.Reader{}); err != nil {
		t.Error(err)
	}
	if err := checkPolicies(nil, "shop", "secret", nil, metric.Reader{}); err != nil {
		t.Error(err)
	}
}

// ofQueues is a catalog whose metrics have a series of each queue and one without.
type ofQueues struct{ catalog }

func (ofQueues) Series(string, string, string, int) []inspect.Series {
	return []inspect.Series{{Labels: map[string]string{"queue": "mail"}}, {Labels: map[string]string{"queue": "fax"}}, {}}
}

// The detail of a metric shows the series that the reader may have.
func TestPoliciesOfInspection(t *testing.T) {
	_, parts := restricted(t)
	source := newInspection(&ofQueues{}, parts.Policies, time.Second).readable(t.Context())
	for _, one := range []struct {
		metric inspect.Metric
		want   int
	}{
		{inspect.Metric{Namespace: "shop", Name: "jobs"}, 1},
		{inspect.Metric{Namespace: "shop", Name: "secret"}, 0},
		{inspect.Metric{Namespace: "shop", Name: "secret", Resource: "pods"}, 3},
		{inspect.Metric{Namespace: "bank", Name: "jobs"}, 3},
	} {
		if got := source.Series(one.metric.Namespace, one.metric.Resource, one.metric.Name, 9); len(got) != one.want {
			t.Errorf("%+v: %d series, want %d", one.metric, len(got), one.want)
		}
	}
}

// queued is a catalog whose external metrics have one series each, of the queue fax.
type queued struct{ catalog }

func (queued) Series(namespace, resource, name string, limit int) []inspect.Series {
	return []inspect.Series{{Labels: map[string]string{"queue": "fax"}, Value: "1.5"}}
}

// Lists and details show the value of a single series to those who may have it.
func TestPoliciesOfListedValues(t *testing.T) {
	_, parts := restricted(t)
	source := &queued{}
	for _, one := range []inspect.Metric{{Name: "jobs"}, {Name: "secret"}, {Name: "open"}, {Name: "secret", Resource: "pods"}} {
		one.Namespace, one.Series, one.Value = "shop", 1, "1.5"
		source.metrics = append(source.metrics, one)
	}
	cfg := configured(nil)
	server, err := New(cfg, Parts{Source: shop(), Inspect: source, Policies: parts.Policies, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	a := running(t, server)
	a.waitReady(t)
	for path, want := range map[string]string{
		"/metrics":        "jobs= open=1.5 secret= secret=1.5",
		"/metrics/secret": "secret= secret=1.5", // external, and of pods
		"/metrics/jobs":   "jobs=",
	} {
		_, body := a.get(t, inspectPath+"/namespaces/shop"+path, "")
		var got struct{ Items, Metrics []inspect.Metric }
		must(t, json.Unmarshal(body, &got))
		var values []string
		for _, m := range append(got.Items, got.Metrics...) {
			values = append(values, m.Name+"="+m.Value)
		}
		if text := strings.Join(values, " "); text != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
}

// The list of policies is an error while they are unknown: an empty one would say that there are none.
func TestUnknownPoliciesAreNotListed(t *testing.T) {
	a := inspected(t, &catalog{unknown: &metric.QueryError{Is: metric.ErrNotReady, Message: "may not read the policies"}})
	for list, code := range map[string]int{"policies": 503, "rules": 200} {
		if resp, body := a.get(t, inspectPath+"/"+list, ""); resp.StatusCode != code || code == 503 && !strings.Contains(string(body), "may not read the policies") {
			t.Errorf("%s: %d %s", list, resp.StatusCode, body)
		}
	}
}
