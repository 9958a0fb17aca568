package main

import (
	"log/slog"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
)

// A notice of a missing metric names what is there instead.
func TestHintAtAMissingMetric(t *testing.T) {
	var about metric.Object
	table := aggregate.New(aggregate.DefaultConfig(), func(_ *metric.Sample, d *metric.Description) metric.Reason {
		d.Object = about
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	w.Online()
	for _, one := range []struct{ resource, namespace, object, name string }{
		{"pods", "shop", "web-1", "http_requests"}, {"", "shop", "", "queue/depth"}, {"", "bank", "", "transfers"},
		{"ingresses.networking.k8s.io", "shop", "main", "hits"}, {"pods", "shop", "web-2", "queue/depth"},
	} {
		about = metric.Object{Resource: one.resource, Namespace: one.namespace, Name: one.object}
		if r := w.Apply(&metric.Sample{Name: []byte(one.name), Kind: metric.Gauge, Sender: &metric.Sender{Key: uint64(len(one.object + one.namespace + one.resource))}}); r != metric.Applied {
			t.Fatal(r)
		}
	}
	w.Offline()
	p := &dataPath{merged: aggregate.NewMerged(table)}
	for _, c := range []struct{ source, name, want string }{
		{"Pods", "http_reqests:rate:10s", `Did you mean "http_requests"?`},
		{"Pods", "http_requests:p95", ""}, // it is there
		{"Pods", "hits", "It is pushed here as a metric of ingresses.networking.k8s.io."},
		{"External", "hits:rate", "It is pushed here as a metric of ingresses.networking.k8s.io."},
		{"Object", `queue\|depth`, "It is pushed here as an external metric and as a metric of pods."},
		{"External", `queue\|dept`, `Did you mean "queue/depth"?`},
		{"External", "transfers", ""}, // of another namespace
		{"Pods", "memory", ""},
	} {
		a := &inspect.Autoscaler{Namespace: "shop", Name: "web"}
		if got := p.hint(a, &inspect.AutoscalerMetric{Source: c.source, Name: c.name}); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.source, c.name, got, c.want)
		}
	}
}

// Events show a hint to readers of unknown rights: it has no name that policies keep out of discovery.
func TestHintsNameNothingHidden(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	guard := clusterObject("sluice.dev/v1alpha1", "ClusterExternalMetricPolicy", "guard",
		map[string]any{"rules": []any{map[string]any{"metric": "hidden_.*", "deny": true}}})
	delete(guard["metadata"].(map[string]any), "namespace")
	c.items["/apis/sluice.dev/v1alpha1/clusterexternalmetricpolicies"] = []any{guard}
	p := startedIn(t, c)
	for _, path := range []string{"external/hidden_keys", "external/open_keys", "configmaps/one/hidden_files"} {
		accepted(t, p, "PUT", "/v1/namespaces/shop/"+path, "7")
	}
	a := &inspect.Autoscaler{Namespace: "shop", Name: "web"}
	for _, one := range []struct{ source, name, want string }{
		{"External", "hidden_kyes", ""}, {"Pods", "hidden_keys", ""},
		{"External", "open_kyes", `Did you mean "open_keys"?`}, {"External", "hidden_files", "It is pushed here as a metric of configmaps."},
	} {
		if got := p.hint(a, &inspect.AutoscalerMetric{Source: one.source, Name: one.name}); got != one.want {
			t.Errorf("%s %s: %q, want %q", one.source, one.name, got, one.want)
		}
	}
}
