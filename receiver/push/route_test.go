package push

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/native"
	"github.com/sluice-metrics/sluice/receiver/push/statsdhttp"
)

// The routes of seriesRoutes.
const (
	nSeries = iota
	nSamples
	nStatsd
	nIndex = nStatsd + 2
)

func seriesRoutes() ([]*httpserver.Route, *httpserver.Router) {
	routes := withIndex(append(native.New(nil, nil, nil, nil).Routes(), statsdhttp.New(0).Routes()...))
	return routes, httpserver.NewRouter(routes)
}

func TestParseRoute(t *testing.T) {
	routes, r := seriesRoutes()
	for path, want := range map[string]struct {
		index int // of the route
		httpserver.Path
	}{
		"/":                                     {nIndex, httpserver.Path{}},
		"/v1":                                   {nIndex, httpserver.Path{}},
		"/v1/":                                  {nIndex, httpserver.Path{}},
		"/v1/samples":                           {nSamples, httpserver.Path{}},
		"/v1/%73amples":                         {nSamples, httpserver.Path{}},
		"/v1/statsd":                            {nStatsd, httpserver.Path{}},
		"/v1/external/m":                        {nSeries, httpserver.Path{Metric: "m"}},
		"/v1/external/samples":                  {nSeries, httpserver.Path{Metric: "samples"}},
		"/v1/nodes/a/m":                         {nSeries, httpserver.Path{Resource: "nodes", Name: "a", Metric: "m"}},
		"/v1/samples/a/m":                       {nSeries, httpserver.Path{Resource: "samples", Name: "a", Metric: "m"}},
		"/v1/namespaces/s/external/m":           {nSeries, httpserver.Path{Namespace: "s", Metric: "m"}},
		"/v1/namespaces/s/metrics/m":            {nSeries, httpserver.Path{Resource: "namespaces", Name: "s", Metric: "m"}},
		"/v1/namespaces/s/pods/p/m":             {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "p", Metric: "m"}},
		"/v1/namespaces/s/pods/*/m:p95:10s":     {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "*", Metric: "m:p95:10s"}},
		"/v1/namespaces/s/pods/p/a%2Fb":         {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "p", Metric: "a/b"}},
		"/v1/external/e%5C%7Cf":                 {nSeries, httpserver.Path{Metric: "e/f"}},
		"/v1/external/i+j%20k":                  {nSeries, httpserver.Path{Metric: "i+j k"}},
		"/v1/external/n%2F..%2F%c3%a4":          {nSeries, httpserver.Path{Metric: "n/../ä"}},
		`/v1/namespaces/s/pods/p/a\|b`:          {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "p", Metric: "a/b"}},
		"/v1/namespaces/s/pods/%2e%2e/m":        {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "..", Metric: "m"}},
		"/v1/namespaces/s/pods/a%2Fm/x":         {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "a/m", Metric: "x"}},
		"/v1/namespaces/s/pods/p/..":            {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "p", Metric: ".."}},
		"/v1/namespaces/%ff%00/pods/p/m":        {nSeries, httpserver.Path{Namespace: "\xff\x00", Resource: "pods", Name: "p", Metric: "m"}},
		"/v1/namespaces/s/pods/p/" + many(1000): {nSeries, httpserver.Path{Namespace: "s", Resource: "pods", Name: "p", Metric: many(1000)}},
	} {
		var got httpserver.Path
		if route, f := r.Find([]byte(path), &got); f != nil || route != routes[want.index] || got != want.Path {
			t.Errorf("%s: %+v %v %v, want %+v", path, route, got, f, want)
		}
	}
}

func TestParseRouteRefuses(t *testing.T) {
	_, r := seriesRoutes()
	for path, status := range map[string]int{
		"": 404, "*": 404, "//": 404, "/v1//": 404, "/v1/x": 404, "/v1/samples/": 404, "/v1/samples/x": 404, "/V1/samples": 404,
		"/v1/external": 400, "/v1/namespaces/s/external": 400, "/v1/namespaces/s/metrics": 400, "/v1/external//m": 404, "/v1/namespaces/s/pods/p": 400, "/v1/a/b/c/d/e": 404, "/v1/a/b/c/d": 404,
		"/v1/namespaces/s/pods/p/m/n": 404, "/v1/namespaces/s/m": 400, "/v1/external/a/b": 400,
		"/v1/external/%zz": 400, "/v1/external/a%2": 400, "/v1/external/%": 400, "/./v1/samples": 404,
	} {
		if route, f := r.Find([]byte(path), new(httpserver.Path)); f == nil || f.Status != status {
			t.Errorf("%q: %+v %v, want %d", path, route, f, status)
		}
	}
}

func many(n int) string { return strings.Repeat("m", n) }

// A path is rejected with a client's status, or each of its segments is in the route.
func FuzzRoute(f *testing.F) {
	for _, s := range []string{"/v1/namespaces/s/pods/p/m", "/v1/external/a%2Fb", `/v1/nodes/a/m\|n`, "//", "/v1/..", "/%", "/v1/namespaces/s/metrics/m"} {
		f.Add(s)
	}
	routes, r := seriesRoutes()
	f.Fuzz(func(t *testing.T, path string) {
		var p httpserver.Path
		route, fault := r.Find([]byte(path), &p)
		if fault != nil {
			if fault.Status != 400 && fault.Status != 404 || fault.Message == "" {
				t.Fatalf("%q: %+v", path, fault)
			}
			return
		}
		if route == routes[nSeries] {
			if p.Metric == "" || (p.Resource == "") != (p.Name == "") {
				t.Fatalf("%q: %+v", path, p)
			}
			again, bad := httpserver.Unescape(nil, []byte(path[strings.LastIndexByte(path, '/')+1:]), false)
			if bad >= 0 || strings.ReplaceAll(string(again), `\|`, "/") != p.Metric {
				t.Fatalf("%q: metric %q", path, p.Metric)
			}
			if p.Check(false) == nil && strings.ContainsAny(p.Namespace+p.Name, "/%\x00") {
				t.Fatalf("%q passed: %+v", path, p)
			}
		}
	})
}
