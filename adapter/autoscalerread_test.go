package adapter

import (
	"iter"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
)

// targetsOf are the pods of Deployment web: those of the town.
type targetsOf struct{ *town }

func (c targetsOf) TargetPods(namespace, kind, name string) (iter.Seq[metric.Object],
	iter.Seq2[metric.Object, metric.Workload], int) {
	if namespace != "shop" || kind != "Deployment" || name != "web" {
		none := func(func(metric.Object) bool) {}
		return none, nil, 0
	}
	ready, n := c.ReadyPods(namespace)
	return func(yield func(metric.Object) bool) {
		for name := range c.pods {
			if !yield(pod(name)) {
				return
			}
		}
	}, ready, n
}

func (c targetsOf) PodStates(string, string, string) []inspect.TargetPod { return nil }

// A metric that a policy denies isn't taken for one that was never pushed.
func TestStatusOfDenial(t *testing.T) {
	for is, want := range map[error]int{metric.ErrForbidden: 403, metric.ErrNotReady: 503, metric.ErrInvalidQuery: 400, metric.ErrNotFound: 404} {
		if got := statusOf(&metric.QueryError{Is: is}); got != want {
			t.Errorf("%v: %d, want %d", is, got, want)
		}
	}
}

// An autoscaler's metric reads as the API answers.
func TestAutoscalerReadsAsTheAPIAnswers(t *testing.T) {
	cluster := newTown()
	cluster.pods["web-3"] = labels.Set{"app": "web"}
	m := shop()
	m.series[0].object.UID = "" // web-1, as the town has it
	m.series[1].object.UID = ""
	m.put(held{metric.Object{Resource: "namespaces", Name: "bank"}, "queue-length", metric.Gauge, labelled(), metric.Int(100), noon})
	r := NewAutoscalerReader(Parts{Cluster: cluster, Source: zeroFilling(m, cluster, remembered{
		"http_requests": {metric.Counter, labelled("path", "/api", "code", "200")}})})
	for _, c := range []struct {
		name   string
		metric inspect.AutoscalerMetric
		target string
		want   string // value
		values int
		pods   int
		err    string
	}{
		{name: "pods, with the zero of web-3", metric: inspect.AutoscalerMetric{Source: "Pods", Name: "http_requests:rate:10s"}, target: "web", want: "12500m", values: 3, pods: 3},
		{name: "some pods", metric: inspect.AutoscalerMetric{Source: "Pods", Name: "memory_bytes"}, target: "web", want: "9007199254740993", values: 1, pods: 3},
		{name: "selector", metric: inspect.AutoscalerMetric{Source: "Pods", Name: "http_requests", Selector: "path=api,code in (200,201)"}, target: "web", want: "10500m", values: 3, pods: 3},
		{name: "slash", metric: inspect.AutoscalerMetric{Source: "Pods", Name: `fs\|usage`}, target: "web", want: "250m", values: 1, pods: 3},
		{name: "never pushed", metric: inspect.AutoscalerMetric{Source: "Pods", Name: "never"}, target: "web", pods: 3, err: "no series of"},
		{name: "a window that is not kept", metric: inspect.AutoscalerMetric{Source: "Pods", Name: "http_requests:7s"}, target: "web", pods: 3, err: "not kept"},
		{name: "pods that are not the target's", metric: inspect.AutoscalerMetric{Source: "Pods", Name: "memory_bytes"}, target: "other", want: "9007199254740993", values: 1},
		{name: "object", metric: inspect.AutoscalerMetric{Source: "Object", Name: "hits-per-second", ObjectAPIVersion: "networking.k8s.io/v1", ObjectKind: "Ingress", ObjectName: "main"}, want: "10", values: 1},
		{name: "object of an older group", metric: inspect.AutoscalerMetric{Source: "Object", Name: "hits-per-second", ObjectAPIVersion: "extensions/v1beta1", ObjectKind: "Ingress", ObjectName: "side"}, want: "15", values: 1},
		{name: "namespace", metric: inspect.AutoscalerMetric{Source: "Object", Name: "queue-length", ObjectAPIVersion: "v1", ObjectKind: "Namespace", ObjectName: "shop"}, want: "7", values: 1},
		{name: "another namespace", metric: inspect.AutoscalerMetric{Source: "Object", Name: "queue-length", ObjectAPIVersion: "v1", ObjectKind: "Namespace", ObjectName: "bank"}, want: "7", values: 1},
		{name: "all namespaces", metric: inspect.AutoscalerMetric{Source: "Object", Name: "queue-length", ObjectAPIVersion: "v1", ObjectKind: "Namespace", ObjectName: "*"}, want: "7", values: 1},
		{name: "node", metric: inspect.AutoscalerMetric{Source: "Object", Name: "temperature", ObjectAPIVersion: "v1", ObjectKind: "Node", ObjectName: "node-b"}, err: "nodes are in no namespace"},
		{name: "unknown kind", metric: inspect.AutoscalerMetric{Source: "Object", Name: "x", ObjectAPIVersion: "a.b/v1", ObjectKind: "Gadget", ObjectName: "shop"}, err: "gadget.a.b"},
		{name: "external", metric: inspect.AutoscalerMetric{Source: "External", Name: "orders_waiting"}, want: "42", values: 2},
		{name: "external, selected", metric: inspect.AutoscalerMetric{Source: "External", Name: "orders_waiting", Selector: "queue=us"}, want: "30", values: 1},
		{name: "external, nothing selected", metric: inspect.AutoscalerMetric{Source: "External", Name: "orders_waiting", Selector: "queue=mars"}, err: "no series"},
		{name: "malformed selector", metric: inspect.AutoscalerMetric{Source: "External", Name: "orders_waiting", Selector: "<error>"}, err: "selector"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &inspect.Autoscaler{Namespace: "shop", Name: "a", TargetKind: "Deployment", TargetName: c.target}
			got, err := r.Of(a, &c.metric, targetsOf{cluster})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || got.Pods != c.pods {
					t.Errorf("%+v, %v; want an error with %q", got, err, c.err)
				}
				return
			}
			if err != nil || Quantity(got.Sum) != c.want || got.Values != c.values || got.Pods != c.pods {
				t.Errorf("%s of %d values and %d pods, %v; want %s of %d and %d", Quantity(got.Sum), got.Values, got.Pods, err, c.want, c.values, c.pods)
			}
		})
	}
}

// rolledUp is a Source of one roll-up.
type rolledUp struct{ *memory }

func (rolledUp) Objects(metric.Query) ([]metric.Point, error) {
	return []metric.Point{{Value: metric.Int(12), Pods: metric.PodCount{With: 2, Of: 3}}}, nil
}

// The reading of a roll-up says how many pods have a value.
func TestAutoscalerReadsRollUps(t *testing.T) {
	cluster := newTown()
	r := NewAutoscalerReader(Parts{Source: rolledUp{shop()}, Cluster: cluster})
	m := &inspect.AutoscalerMetric{Source: "Object", Name: "busy", ObjectAPIVersion: "apps/v1", ObjectKind: "Deployment", ObjectName: "web"}
	got, err := r.Of(&inspect.Autoscaler{Namespace: "shop", Name: "a"}, m, targetsOf{cluster})
	if err != nil || Quantity(got.Sum) != "12" || got.Values != 2 || got.Pods != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
