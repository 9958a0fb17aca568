package push

import (
	"strings"
	"testing"
)

func TestParseRoute(t *testing.T) {
	for path, want := range map[string]route{
		"/":                                     {place: index},
		"/v1":                                   {place: index},
		"/v1/":                                  {place: index},
		"/v1/samples":                           {place: samples},
		"/v1/%73amples":                         {place: samples},
		"/v1/statsd":                            {place: statsdLines},
		"/v1/external/m":                        {place: series, metric: "m"},
		"/v1/external/samples":                  {place: series, metric: "samples"},
		"/v1/nodes/a/m":                         {place: series, resource: "nodes", name: "a", metric: "m"},
		"/v1/samples/a/m":                       {place: series, resource: "samples", name: "a", metric: "m"},
		"/v1/namespaces/s/external/m":           {place: series, namespace: "s", metric: "m"},
		"/v1/namespaces/s/metrics/m":            {place: series, resource: "namespaces", name: "s", metric: "m"},
		"/v1/namespaces/s/pods/p/m":             {place: series, namespace: "s", resource: "pods", name: "p", metric: "m"},
		"/v1/namespaces/s/pods/*/m:p95:10s":     {place: series, namespace: "s", resource: "pods", name: "*", metric: "m:p95:10s"},
		"/v1/namespaces/s/pods/p/a%2Fb":         {place: series, namespace: "s", resource: "pods", name: "p", metric: "a/b"},
		`/v1/namespaces/s/pods/p/a\|b`:          {place: series, namespace: "s", resource: "pods", name: "p", metric: "a/b"},
		"/v1/namespaces/s/pods/%2e%2e/m":        {place: series, namespace: "s", resource: "pods", name: "..", metric: "m"},
		"/v1/namespaces/s/pods/a%2Fm/x":         {place: series, namespace: "s", resource: "pods", name: "a/m", metric: "x"},
		"/v1/namespaces/s/pods/p/..":            {place: series, namespace: "s", resource: "pods", name: "p", metric: ".."},
		"/v1/namespaces/%ff%00/pods/p/m":        {place: series, namespace: "\xff\x00", resource: "pods", name: "p", metric: "m"},
		"/v1/namespaces/s/pods/p/" + many(1000): {place: series, namespace: "s", resource: "pods", name: "p", metric: many(1000)},
	} {
		if got, f := parseRoute([]byte(path)); f != nil || got != want {
			t.Errorf("%s: %+v %v, want %+v", path, got, f, want)
		}
	}
}

func TestParseRouteRefuses(t *testing.T) {
	for path, status := range map[string]int{
		"": 404, "*": 404, "//": 404, "/v1//": 404, "/v1/x": 404, "/v1/samples/": 404, "/v1/samples/x": 404, "/V1/samples": 404,
		"/v1/external": 400, "/v1/namespaces/s/external": 400, "/v1/namespaces/s/metrics": 400, "/v1/external//m": 404, "/v1/namespaces/s/pods/p": 400, "/v1/a/b/c/d/e": 404, "/v1/a/b/c/d": 404,
		"/v1/namespaces/s/pods/p/m/n": 404, "/v1/namespaces/s/m": 400, "/v1/external/a/b": 400,
		"/v1/external/%zz": 400, "/v1/external/a%2": 400, "/v1/external/%": 400, "/./v1/samples": 404,
	} {
		if got, f := parseRoute([]byte(path)); f == nil || f.status != status {
			t.Errorf("%q: %+v %v, want %d", path, got, f, status)
		}
	}
}

func many(n int) string { return strings.Repeat("m", n) }

// Whatever the path, it is refused with a client's status, or every piece of it is in the route.
func FuzzRoute(f *testing.F) {
	for _, s := range []string{"/v1/namespaces/s/pods/p/m", "/v1/external/a%2Fb", `/v1/nodes/a/m\|n`, "//", "/v1/..", "/%", "/v1/namespaces/s/metrics/m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r, fault := parseRoute([]byte(path))
		if fault != nil {
			if fault.status != 400 && fault.status != 404 || fault.message == "" {
				t.Fatalf("%q: %+v", path, fault)
			}
			return
		}
		if r.place == nowhere {
			t.Fatalf("%q leads nowhere", path)
		}
		if r.place == series {
			if r.metric == "" || (r.resource == "") != (r.name == "") {
				t.Fatalf("%q: %+v", path, r)
			}
			again, bad := unescape(nil, []byte(path[strings.LastIndexByte(path, '/')+1:]), false)
			if bad >= 0 || slashed(string(again)) != r.metric {
				t.Fatalf("%q: metric %q", path, r.metric)
			}
			if r.check(false) == nil && strings.ContainsAny(r.namespace+r.name, "/%\x00") {
				t.Fatalf("%q passed: %+v", path, r)
			}
		}
	})
}
