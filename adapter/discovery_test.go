package adapter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const aggregatedForm = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"

var shopCustom = []string{
	"ingresses.networking.k8s.io/hits-per-second", "namespaces/queue-length", "nodes/temperature",
	`pods/fs\|usage`, "pods/http_requests", "pods/memory_bytes",
}

var shopExternal = []string{`jobs\|done`, "orders_waiting"}

// names are the resources that a group version lists, in its own document.
func (a *api) names(t *testing.T, groupVersion string) []string {
	t.Helper()
	resp, body := a.get(t, "/apis/"+groupVersion, "application/json")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", groupVersion, resp.StatusCode, body)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil || list.GroupVersion != groupVersion {
		t.Fatalf("%v: %s", err, body)
	}
	kind := "MetricValueList"
	if strings.HasPrefix(groupVersion, "external.") {
		kind = "ExternalMetricValueList"
	}
	var names []string
	for _, apiResource := range list.APIResources {
		names = append(names, apiResource.Name)
		if apiResource.Kind != kind {
			t.Errorf("%s has the kind %s, want %s", apiResource.Name, apiResource.Kind, kind)
		}
	}
	return names
}

// aggregatedNames are the resources of the aggregated document, by group version, with subresources
// after a slash.
func (a *api) aggregatedNames(t *testing.T) map[string][]string {
	t.Helper()
	resp, body := a.get(t, "/apis", aggregatedForm)
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil || resp.StatusCode != http.StatusOK || list.Kind != "APIGroupDiscoveryList" {
		t.Fatalf("%v, status %d: %s", err, resp.StatusCode, body)
	}
	names := map[string][]string{}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			key := g.Name + "/" + v.Version
			for _, r := range v.Resources {
				if len(r.Verbs) > 0 {
					names[key] = append(names[key], r.Resource)
				}
				for _, sub := range r.Subresources {
					names[key] = append(names[key], r.Resource+"/"+sub.Subresource)
				}
			}
		}
	}
	return names
}

func TestDiscoveryListsTheNamesThatExist(t *testing.T) {
	a := start(t, shop())
	aggregated := a.aggregatedNames(t)
	for groupVersion, want := range map[string][]string{
		"custom.metrics.k8s.io/v1beta1":   shopCustom,
		"custom.metrics.k8s.io/v1beta2":   shopCustom,
		"external.metrics.k8s.io/v1beta1": shopExternal,
	} {
		if got := a.names(t, groupVersion); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", groupVersion, got, want)
		}
		if got := aggregated[groupVersion]; !slices.Equal(got, want) {
			t.Errorf("%s, aggregated: %q, want %q", groupVersion, got, want)
		}
	}
	if len(aggregated) != 3 {
		t.Errorf("aggregated: %v", aggregated)
	}
}

func TestDiscoveryAnnouncesBothVersions(t *testing.T) {
	a := start(t, shop())
	_, body := a.get(t, "/apis", "application/json")
	var groups metav1.APIGroupList
	if err := json.Unmarshal(body, &groups); err != nil || len(groups.Groups) != 2 {
		t.Fatalf("%v: %s", err, body)
	}
	_, body = a.get(t, "/apis/custom.metrics.k8s.io", "application/json")
	var custom metav1.APIGroup
	must(t, json.Unmarshal(body, &custom))
	for _, g := range []metav1.APIGroup{groups.Groups[0], custom} {
		if len(g.Versions) != 2 || g.PreferredVersion.Version != "v1beta2" {
			t.Errorf("%+v", g)
		}
	}
}

// An empty list breaks clients (keda#4008, kyverno#2684).
func TestDiscoveryIsNeverEmptyAndFollowsPushes(t *testing.T) {
	m := new(memory)
	a := start(t, m)
	custom, external := "custom.metrics.k8s.io/v1beta2", "external.metrics.k8s.io/v1beta1"
	check := func(wantCustom, wantExternal string) {
		t.Helper()
		aggregated := a.aggregatedNames(t)
		for groupVersion, want := range map[string]string{custom: wantCustom, external: wantExternal} {
			if got := a.names(t, groupVersion); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %q, want %q", groupVersion, got, want)
			}
			if got := aggregated[groupVersion]; !slices.Equal(got, []string{want}) {
				t.Errorf("%s, aggregated: %q, want %q", groupVersion, got, want)
			}
		}
	}
	check("pods/nothing-pushed-yet", "nothing-pushed-yet")
	m.put(held{object: pod("a"), name: "x", kind: metric.Gauge}, held{object: pod("b"), name: "x", kind: metric.Counter})
	check("pods/x", "nothing-pushed-yet")
	m.put(held{name: "y", kind: metric.Gauge})
	check("pods/x", "y")
}

// Thousands of names slow down every kubectl (kubernetes#98801). Many names of one group leave room
// for the other's.
func TestDiscoveryIsCapped(t *testing.T) {
	m := new(memory)
	for i := range 30 {
		m.put(held{name: fmt.Sprintf("e%02d", i), kind: metric.Gauge}, held{object: pod("a"), name: fmt.Sprintf("c%02d", i), kind: metric.Gauge})
	}
	a := start(t, m, func(c *Config) { c.DiscoveryLimit = 7 })
	for _, groupVersion := range []string{"custom.metrics.k8s.io/v1beta1", "external.metrics.k8s.io/v1beta1"} {
		if got := a.names(t, groupVersion); len(got) != 7 {
			t.Errorf("%s: %q", groupVersion, got)
		}
		if got := a.aggregatedNames(t)[groupVersion]; len(got) != 7 {
			t.Errorf("%s, aggregated: %q", groupVersion, got)
		}
	}
}

// A resource that does not resolve could not be requested, so it is not listed.
func TestDiscoveryLeavesOutUnknownResources(t *testing.T) {
	m := shop()
	m.put(held{object: metric.Object{Resource: "widgets.example.com", Name: "a"}, name: "x", kind: metric.Gauge})
	if got := start(t, m).names(t, "custom.metrics.k8s.io/v1beta1"); !slices.Equal(got, shopCustom) {
		t.Errorf("%q", got)
	}
}

func TestSwitchedOffGroupIsNeitherServedNorListed(t *testing.T) {
	for _, c := range []struct {
		name string
		off  func(*Config)
		gone []string
		left string
	}{
		{"external off", func(c *Config) { c.ExternalMetrics = false },
			[]string{"/apis/external.metrics.k8s.io", externalRoot, externalRoot + "namespaces/shop/orders_waiting"}, "custom.metrics.k8s.io"},
		{"custom off", func(c *Config) { c.CustomMetrics = false },
			[]string{"/apis/custom.metrics.k8s.io", customRoot + "v1beta1", customRoot + "v1beta2/nodes/*/temperature"}, "external.metrics.k8s.io"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := start(t, shop(), c.off)
			for _, path := range c.gone {
				if resp, body := a.get(t, path, "application/json"); resp.StatusCode != http.StatusNotFound {
					t.Errorf("%s: %d %s", path, resp.StatusCode, body)
				}
			}
			_, body := a.get(t, "/apis", "application/json")
			var groups metav1.APIGroupList
			if err := json.Unmarshal(body, &groups); err != nil || len(groups.Groups) != 1 || groups.Groups[0].Name != c.left {
				t.Errorf("%v: %s", err, body)
			}
			for groupVersion := range a.aggregatedNames(t) {
				if groupVersion[:len(c.left)] != c.left {
					t.Errorf("aggregated discovery lists %s", groupVersion)
				}
			}
		})
	}
}

func TestDiscoveryInProtobuf(t *testing.T) {
	a := start(t, shop())
	for _, path := range []string{"/apis", "/apis/custom.metrics.k8s.io", "/apis/custom.metrics.k8s.io/v1beta1"} {
		resp, _ := a.get(t, path, protobuf)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != protobuf {
			t.Errorf("%s: %d %q", path, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
	}
}

func TestVersionAndOpenAPI(t *testing.T) {
	a := start(t, shop())
	for _, path := range []string{"/version", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/custom.metrics.k8s.io/v1beta2",
		"/openapi/v3/apis/external.metrics.k8s.io/v1beta1", "/healthz", "/livez", "/readyz"} {
		if resp, body := a.get(t, path, ""); resp.StatusCode != http.StatusOK || len(body) == 0 {
			t.Errorf("%s: %d %.200s", path, resp.StatusCode, body)
		}
	}
}

// hiding is a source that asks which metrics are hidden.
type hiding struct {
	Source
	hidden map[string]bool
}

func (h *hiding) Listed(_ int, hidden func(metric.Discovered) bool) []metric.Discovered {
	for _, resource := range []string{"", "pods"} {
		h.hidden["secret "+resource] = hidden(metric.Discovered{Resource: resource, Name: "secret"})
	}
	return nil
}

// What a rule makes of a hidden external metric is not listed, so the source knows which ones are.
func TestTheSourceKnowsWhatIsHidden(t *testing.T) {
	source := &hiding{hidden: map[string]bool{}}
	c := catalogue{source: source, limit: 10, hidden: func(name string) bool { return name == "secret" }}
	for name, list := range map[string]func() []metav1.APIResource{"custom": c.custom, "external": c.external} {
		if list(); !source.hidden["secret "] || source.hidden["secret pods"] {
			t.Errorf("%s: %v", name, source.hidden)
		}
	}
}
