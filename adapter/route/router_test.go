package route

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// The first provider of the file that matches has a metric.
func TestFind(t *testing.T) {
	s := newStandIn(t, answers(200, "application/json", oneValue))
	r := routerOf(t, patient(),
		s.spec(func(s *Spec) { s.Name, s.Metrics, s.ScaledObjects = "keda", nil, true }),
		s.spec(func(s *Spec) { s.Name, s.Metrics = "datadog", []string{"datadogmetric@*", "dd.*.count"} }),
		s.spec(func(s *Spec) { s.Name, s.Metrics, s.Namespaces = "legacy", []string{"*"}, []string{"old-*", "older"} }),
	)
	for _, one := range []struct{ namespace, name, selector, want string }{
		{"shop", "orders", "", ""},
		{"shop", "s0-cron", "scaledobject.keda.sh/name=web", "keda"},
		{"old-a", "s0-cron", "scaledobject.keda.sh/name=web,queue=mail", "keda"},
		{"shop", "s0-cron", "scaledobject.keda.sh/name in (web)", "keda"},
		{"shop", "s0-cron", "scaledobject.keda.sh/name", ""},
		{"shop", "s0-cron", "scaledobject.keda.sh/name!=web", ""},
		{"shop", "s0-cron", "!scaledobject.keda.sh/name", ""},
		{"shop", "datadogmetric@shop:orders", "", "datadog"},
		{"shop", "xdatadogmetric@shop:orders", "", ""},
		{"shop", "dd.a/b.count", "", "datadog"},
		{"shop", "dd.count", "", ""},
		{"shop", "ddxaxcount", "", ""},
		{"old-a", "orders", "", "legacy"},
		{"older", "or\nders", "", "legacy"},
		{"older-b", "orders", "", ""},
		{"cold-a", "orders", "", ""},
		{"older", strings.Repeat("m", maxName), "", "legacy"},
		{"older", strings.Repeat("m", maxName+1), "", ""},
	} {
		selector, err := labels.Parse(one.selector)
		must(t, err)
		got := ""
		if p := r.Find(one.namespace, one.name, selector); p != nil {
			got = p.Name()
		}
		if got != one.want {
			t.Errorf("%s in %s, %q: %q, want %q", one.name, one.namespace, one.selector, got, one.want)
		}
	}
	if (*Router)(nil).Find("shop", "orders", nil) != nil || r.Find("shop", "orders", nil) != nil {
		t.Error("a metric is routed without a route")
	}
}

func TestReadNamesEveryFault(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "routes.yaml")
	write := func(name, text string) {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("empty.crt", "nothing")
	for text, want := range map[string][]string{
		"providers:\n- {name: A, url: 'http://x', caFile: /none}\n- {name: b, url: 'https://x/apis', caFile: " + folder +
			"/empty.crt, metrics: ['']}\n- {name: b, url: 'https://u:hunter2@x', caFile: /none, scaledObjects: true, namespaces: ['']}\n": {
			`providers[0].name: is "A"; must be of a-z`, `providers[0].url: is "http://x"; must be https://HOST`, "providers[0].caFile: cannot be read",
			"providers[0].metrics: is empty, and scaledObjects is false", `providers[1].url: is "https://x/apis"`,
			"providers[1].caFile: " + folder + "/empty.crt has no certificate in PEM", "providers[1].metrics[0]: is empty",
			`providers[2].url: is "https://u:***@x"`, "providers[2].namespaces[0]: is empty", "providers[2].name: b is another provider's",
		},
		"providers: [{nmae: a}]": {"nmae"},
		"[1":                     {"yaml"},
		"":                       nil,
		"providers: []":          nil,
	} {
		write("routes.yaml", text)
		specs, err := Read(file)
		if (err == nil) != (want == nil) || err == nil && len(specs) > 0 {
			t.Errorf("%q: %v %v", text, specs, err)
		}
		for _, part := range want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v\nwant %q", text, err, part)
			}
		}
	}
	if _, err := Read(filepath.Join(folder, "absent")); !os.IsNotExist(err) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// Discovery is that of all providers, as far as it is asked of them.
func TestListed(t *testing.T) {
	const list = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"external.metrics.k8s.io/v1beta1","resources":[` +
		`{"name":"other.a"},{"name":"mine"},{"name":"other.b"}]}`
	s := newStandIn(t, answers(200, "application/json", list))
	r := routerOf(t, patient(), s.spec(), s.spec(func(s *Spec) { s.Name, s.Metrics, s.ScaledObjects = "keda", nil, true }))
	if names := r.Listed(); names != nil {
		t.Errorf("before any answer: %v", names)
	}
	for _, p := range r.providers {
		p.look(t.Context())
		if why, _ := p.Fault(); why != "" {
			t.Error(why)
		}
	}
	if names := r.Listed(); !slices.Equal(names, []string{"other.a", "other.b", "other.a", "mine", "other.b"}) {
		t.Errorf("listed: %v", names)
	}
	s.Close()
	r.providers[0].look(t.Context())
	if why, _ := r.providers[0].Fault(); !strings.Contains(why, "cannot be reached at "+s.URL) || len(r.Listed()) != 5 {
		t.Errorf("away: %q, listed %v", why, r.Listed())
	}
}
