package cluster

import (
	"errors"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// aGroup is one API group of discovery, its preferred version first.
func aGroup(name string, versions ...string) *metav1.APIGroup {
	g := &metav1.APIGroup{Name: name}
	for _, version := range versions {
		gv := version
		if name != "" {
			gv = name + "/" + version
		}
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

func aList(groupVersion string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: resources}
}

func listed(name, kind string, namespaced bool) metav1.APIResource {
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list"}}
}

var discovered = struct {
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
}{
	[]*metav1.APIGroup{
		aGroup("", "v1"), aGroup("apps", "v1"), aGroup("autoscaling", "v2", "v1"), aGroup("networking.k8s.io", "v1"), aGroup("events.k8s.io", "v1"),
		aGroup("serving.knative.dev", "v1"), aGroup("one.example.com", "v1beta1", "v1alpha1"), aGroup("two.example.com", "v1"),
		aGroup("metrics.k8s.io", "v1beta1"), aGroup("external.metrics.k8s.io", "v1beta1"), aGroup("custom.metrics.k8s.io", "v1beta2"),
	},
	[]*metav1.APIResourceList{
		aList("v1", listed("pods", "Pod", true), listed("pods/log", "Pod", true), listed("services", "Service", true), listed("namespaces", "Namespace", false),
			listed("events", "Event", true), metav1.APIResource{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}}),
		aList("apps/v1", listed("deployments", "Deployment", true), listed("deployments/scale", "Scale", true)),
		aList("autoscaling/v2", listed("horizontalpodautoscalers", "HorizontalPodAutoscaler", true)),
		aList("autoscaling/v1", listed("horizontalpodautoscalers", "HorizontalPodAutoscaler", true)),
		aList("networking.k8s.io/v1", listed("ingresses", "Ingress", true)),
		aList("events.k8s.io/v1", listed("events", "Event", true)),
		aList("serving.knative.dev/v1", listed("services", "Service", true)),
		aList("one.example.com/v1beta1", listed("widgets", "Widget", true)),
		aList("one.example.com/v1alpha1", listed("widgets", "Widget", true), listed("gadgets", "Gadget", false)),
		aList("two.example.com/v1", listed("widgets", "Widget", true)),
		aList("metrics.k8s.io/v1beta1", listed("pods", "PodMetrics", true)),
		aList("external.metrics.k8s.io/v1beta1", listed("queue_depth", "ExternalMetricValueList", true)),
		aList("custom.metrics.k8s.io/v1beta2", listed("pods/http_requests", "MetricValueList", true)),
	},
}

func TestCanonical(t *testing.T) {
	r := newResources()
	v := &View{resources: r}
	if _, _, err := v.Canonical("pods"); !errors.Is(err, metric.ErrNotReady) {
		t.Errorf("before the first discovery: %v", err)
	}
	if len(r.refresh) != 0 {
		t.Error("asks again before the first answer")
	}
	r.set(resourcesOf(discovered.groups, discovered.lists, nil, nil))
	for _, c := range []struct {
		in, want   string
		kind       string
		namespaced bool
		err        error
	}{
		{"pods", "pods", "/v1, Kind=Pod", true, nil},
		{"pod", "pods", "/v1, Kind=Pod", true, nil},
		{"Pod", "pods", "/v1, Kind=Pod", true, nil},
		{"namespaces", "namespaces", "/v1, Kind=Namespace", false, nil},
		{"deployments", "deployments.apps", "apps/v1, Kind=Deployment", true, nil},
		{"deployment.apps", "deployments.apps", "apps/v1, Kind=Deployment", true, nil},
		{"horizontalpodautoscalers", "horizontalpodautoscalers.autoscaling", "autoscaling/v2, Kind=HorizontalPodAutoscaler", true, nil},
		{"ingress.extensions", "ingresses.networking.k8s.io", "networking.k8s.io/v1, Kind=Ingress", true, nil},
		{"deployments.extensions", "deployments.apps", "apps/v1, Kind=Deployment", true, nil},
		{"gadgets", "gadgets.one.example.com", "one.example.com/v1alpha1, Kind=Gadget", false, nil},
		{"widgets.one.example.com", "widgets.one.example.com", "one.example.com/v1beta1, Kind=Widget", true, nil},
		{"widget.two.example.com", "widgets.two.example.com", "two.example.com/v1, Kind=Widget", true, nil},
		{"services", "services", "/v1, Kind=Service", true, nil},
		{"services.serving.knative.dev", "services.serving.knative.dev", "serving.knative.dev/v1, Kind=Service", true, nil},
		{"events", "events", "/v1, Kind=Event", true, nil},
		{"widgets", "", "", false, metric.ErrInvalidQuery},
		{"widgets.extensions", "", "", false, metric.ErrNotFound},
		{"bindings", "", "", false, metric.ErrNotFound},
		{"pods/log", "", "", false, metric.ErrNotFound},
		{"queue_depth", "", "", false, metric.ErrNotFound},
		{"po", "", "", false, metric.ErrNotFound},
		{"", "", "", false, metric.ErrNotFound},
	} {
		canonical, namespaced, err := v.Canonical(c.in)
		if canonical != c.want || namespaced != c.namespaced || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v, %v; want %q, %v, %v", c.in, canonical, namespaced, err, c.want, c.namespaced, c.err)
		}
		kind, gr, _, err := v.FindResource(c.in)
		if err == nil && (kind.String() != c.kind || gr.String() != c.want) {
			t.Errorf("%q: %s and %s, want %s", c.in, kind, gr, c.kind)
		}
	}
	if len(r.refresh) != 1 {
		t.Error("an unknown resource is not asked for")
	}
}

func TestGroupWhoseServerIsAwayKeepsWhatItHad(t *testing.T) {
	before := resourcesOf(discovered.groups, discovered.lists, nil, nil)
	lists := []*metav1.APIResourceList{discovered.lists[0]} // only the core group answers
	now := newResourceNames(resourcesOf(discovered.groups, lists, before, sets.New("apps")))
	if len(now.find("deployments")) != 1 {
		t.Error("the resources of a group that is away are forgotten")
	}
	if len(now.find("ingresses")) != 0 {
		t.Error("what is gone is still known")
	}
	r := newResources()
	if !r.set(before) || r.set(before) {
		t.Error("only what is new is a change")
	}
}
