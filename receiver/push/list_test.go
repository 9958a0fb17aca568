package push

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// shelf is a native.Lister.
type shelf struct{}

func (shelf) Namespaces(q inspect.Query) inspect.Page[string] {
	return inspect.Paged(q, []string{"shop", "bank", "docks"}, func(s *string) (string, string, inspect.Key) { return "", *s, inspect.Key{*s} })
}

func (shelf) Metrics(q inspect.Query) inspect.Page[inspect.Metric] {
	all := []inspect.Metric{{Namespace: "shop", Name: "a/b", Resource: "pods", Kind: "counter", Objects: 2, Series: 3}, {Namespace: "shop", Name: "jobs", Kind: "gauge", Series: 1}}
	return inspect.Paged(q, all, func(m *inspect.Metric) (string, string, inspect.Key) {
		return m.Namespace, m.Name, inspect.Key{m.Namespace, m.Name, m.Resource}
	})
}

func (shelf) Series(_, _, name string, _ int) []inspect.Series {
	return []inspect.Series{{Labels: map[string]string{"queue": "mail"}, Value: "1"}}
}

func TestPathsAboveMetricsAreListed(t *testing.T) {
	s := start(t, func(_ *Config, p *Parts) { p.Lister = shelf{} })
	for path, want := range map[string]string{
		"/v1/namespaces":          `{"namespaces":[{"name":"bank","path":"/v1/namespaces/bank"},{"name":"docks","path":"/v1/namespaces/docks"},{"name":"shop","path":"/v1/namespaces/shop"}]}`,
		"/v1/namespaces/?limit=1": `{"namespaces":[{"name":"bank","path":"/v1/namespaces/bank"}],"continue":"` + inspect.Key{"bank"}.Token("namespaces") + `"}`,
		"/v1/namespaces?limit=1&continue=" + inspect.Key{"docks"}.Token("namespaces"): `{"namespaces":[{"name":"shop","path":"/v1/namespaces/shop"}]}`,
		"/v1/namespaces/none": `{"metrics":[]}`,
		"/v1/namespaces/shop?limit=1": `{"metrics":[{"namespace":"shop","name":"a/b","resource":"pods","kind":"counter","objects":2,"series":3,` +
			`"lastSample":"0001-01-01T00:00:00Z","path":"/v1/namespaces/shop/pods/*/a%2Fb"}],"continue":"` + inspect.Key{"shop", "a/b", "pods"}.Token("metrics") + `"}`,
	} {
		status, body := s.do("GET", path, "")
		if status != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s, want\n%s", path, status, body, want)
		}
	}
	for path, want := range map[string]string{
		"/v1/namespaces?limit=0":    "limit is",
		"/v1/namespaces?limit=5001": "limit is",
		"/v1/namespaces?continue=x": "must be that of the page before",
		"/v1/namespaces/shop?continue=" + inspect.Key{"x"}.Token("namespaces"): "must be that of the page before",
		"/v1/namespaces?labels=a": `the parameter \"labels\" is unknown`,
		"/v1/namespaces/Shop":     "is not a namespace",
	} {
		if status, body := s.do("GET", path, ""); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %q", path, status, body, want)
		}
	}
	if status, body := s.do("PUT", "/v1/namespaces/shop", "1"); status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d %s", status, body)
	}
}

// A list has what the sender may read: its own namespace, and others by right.
func TestListsHaveWhatTheSenderMayRead(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t, func(_ *Config, p *Parts) { p.Lister = shelf{} })
		const shop, bank = `{"name":"shop","path":"/v1/namespaces/shop"}`, `{"name":"bank","path":"/v1/namespaces/bank"}`
		h.wants(200, `{"namespaces":[`+shop+`]}`, "GET", "/v1/namespaces", "", asShop...)
		h.wants(200, `"name":"jobs"`, "GET", "/v1/namespaces/shop", "", asShop...)
		h.wants(403, forbidden, "GET", "/v1/namespaces/bank", "", asShop...)
		c.rights[metric.Right{Verb: metric.Get, Namespace: "bank"}] = true
		h.wants(200, `{"metrics":[]}`, "GET", "/v1/namespaces/bank", "", "Authorization", "Bearer bound")
		h.wants(200, bank+","+shop, "GET", "/v1/namespaces", "", "Authorization", "Bearer bound")
		h.wants(401, "", "GET", "/v1/namespaces/shop", "")
	})
}
