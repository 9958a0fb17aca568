package adapter

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
)

func labelMap(key, value string) func() map[string]string {
	return func() map[string]string { return map[string]string{key: value} }
}

// fakeUsage is a Usage of two pods on a node.
type fakeUsage struct{}

func (fakeUsage) Pods(namespace, name string, selector labels.Selector) (all []usage.Pod) {
	for _, pod := range []usage.Pod{{Namespace: "shop", Name: "b"}, {Namespace: "shop", Name: "a", Labels: labelMap("app", "a")}, {Namespace: "mail", Name: "c"}} {
		if (namespace == "" || namespace == pod.Namespace) && (name == "" || name == pod.Name) && selector.Matches(labels.Set(pod.LabelMap())) {
			all = append(all, pod)
		}
	}
	return all
}

func (fakeUsage) record(pod *usage.Pod) usage.Record {
	d := usage.Derived{Mean: 0.25, Max: 0.5, NinetyFive: 0.5, Covered: time.Minute}
	of := usage.Usage{End: noon, Windows: [usage.Windows]usage.Derived{d, d, d, d}}
	return usage.Record{Container: metric.Container{Namespace: pod.Namespace, Pod: pod.Name, Name: "main"}, CPU: of, Memory: of,
		Newest: usage.Newest{CPU: 25e7, Memory: 1 << 20, End: noon, Window: 10 * time.Second}}
}

func (u fakeUsage) Served(pod *usage.Pod) ([]usage.Record, time.Time, time.Duration, bool) {
	return u.Containers(pod), noon, 10 * time.Second, true
}

func (u fakeUsage) Containers(pod *usage.Pod) []usage.Record { return []usage.Record{u.record(pod)} }

func (u fakeUsage) Nodes(name string, _ labels.Selector) ([]UsedNode, error) {
	r := u.record(&usage.Pod{})
	return []UsedNode{{Name: "node", Record: &r}}, nil
}

func (fakeUsage) Points(context.Context, string, *usage.PointsQuery) ([]usage.ContainerPoints, error) {
	return nil, nil
}

func (fakeUsage) Version(string) (of, newest uint64) { return 1, 1 }

func startUsed(t *testing.T, source Usage) *api {
	t.Helper()
	cfg := configured(nil)
	cfg.ResourceMetrics = true
	server, err := New(cfg, Parts{Source: &memory{}, Usage: source, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	a := running(t, server)
	a.waitReady(t)
	return a
}

// Both versions of metrics.k8s.io say the same, in JSON and protobuf.
func TestResourceMetricsVersions(t *testing.T) {
	a := startUsed(t, fakeUsage{})
	for _, path := range []string{"/pods", "/nodes", "/nodes/node", "/namespaces/shop/pods", "/namespaces/shop/pods/a", "/pods?labelSelector=app%3Da",
		"/namespaces/shop/pods?fieldSelector=metadata.name%3Db"} {
		said := map[string]string{}
		for _, version := range []string{"v1", "v1beta1"} {
			status, body := got(t, a, "/apis/metrics.k8s.io/"+version+path, "application/json")
			if status != http.StatusOK || !strings.Contains(body, `"apiVersion":"metrics.k8s.io/`+version+`"`) || !strings.Contains(body, "250m") {
				t.Fatalf("%s of %s: %d %s", path, version, status, body)
			}
			said[version] = strings.ReplaceAll(body, version, "")
			status, body = got(t, a, "/apis/metrics.k8s.io/"+version+path, "application/vnd.kubernetes.protobuf")
			if status != http.StatusOK || !strings.Contains(body, "metrics.k8s.io/"+version) {
				t.Errorf("%s of %s in protobuf: %d %q", path, version, status, body)
			}
		}
		if first, second := withoutDates(said["v1"]), withoutDates(said["v1beta1"]); first != second {
			t.Errorf("%s: v1 says\n%s\nv1beta1\n%s", path, first, second)
		}
	}
	_, body := got(t, a, "/apis/metrics.k8s.io", "application/json")
	if !strings.Contains(body, `"preferredVersion":{"groupVersion":"metrics.k8s.io/v1"`) {
		t.Errorf("discovery says %s", body)
	}
	if _, body := got(t, a, "/openapi/v2", "application/json"); !strings.Contains(body, "/apis/metrics.k8s.io/v1/nodes") {
		t.Error("the OpenAPI document lacks v1")
	}
}

// Kubectl prints a row for an object, and one for each of a list.
func TestUsageAsTable(t *testing.T) {
	a := startUsed(t, fakeUsage{})
	const newest, derived = `,"250m","1Mi","10s"]`, `,"250m / 500m","0Mi / 0Mi"`
	for path, want := range map[string][]string{
		"metrics.k8s.io/v1/namespaces/shop/pods":                  {`["a"` + newest, `["b"` + newest},
		"metrics.k8s.io/v1/namespaces/shop/pods/a":                {`["a"` + newest},
		"metrics.k8s.io/v1/nodes":                                 {`["node"` + newest},
		"metrics.k8s.io/v1/nodes/node":                            {`["node"` + newest},
		"usage.sluice.dev/v1alpha1/namespaces/shop/derivedpods":   {`["a"` + derived, `["b"` + derived},
		"usage.sluice.dev/v1alpha1/namespaces/mail/derivedpods/c": {`["c"` + derived},
		"usage.sluice.dev/v1alpha1/derivednodes":                  {`["node"` + derived},
		"usage.sluice.dev/v1alpha1/derivednodes/node":             {`["node"` + derived},
	} {
		status, body := got(t, a, "/apis/"+path, "application/json;as=Table;v=v1;g=meta.k8s.io")
		rows := strings.Split(body, `"cells":`)[1:]
		if status != http.StatusOK || len(rows) != len(want) {
			t.Errorf("%s: %d, %d rows: %s", path, status, len(rows), body)
			continue
		}
		for i, row := range rows {
			if !strings.HasPrefix(row, want[i]) {
				t.Errorf("%s: row %s, want %s", path, row, want[i])
			}
		}
	}
}

// withoutDates drops when answers were made.
func withoutDates(text string) string {
	parts := strings.Split(text, `"creationTimestamp":"`)
	for i := 1; i < len(parts); i++ {
		_, parts[i], _ = strings.Cut(parts[i], `"`)
	}
	return strings.Join(parts, "")
}

func got(t *testing.T, a *api, path, accept string) (status int, body string) {
	t.Helper()
	response, text := a.get(t, path, accept)
	return response.StatusCode, string(text)
}
