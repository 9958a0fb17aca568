package adapter

import (
	"testing"

	"github.com/sluice-metrics/sluice/adapter/builtin"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

func (a *api) rest() *restclient.Config {
	return &restclient.Config{Host: a.url, TLSClientConfig: restclient.TLSClientConfig{Insecure: true}, QPS: -1}
}

// clusterMapper maps kinds as a cluster's API server would.
func clusterMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(scheme.Scheme.PrioritizedVersionsAllGroups())
	resources := builtin.New()
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		newest, _, namespaced, err := resources.FindResource(plural.GroupResource().String())
		if err != nil || newest != kind {
			continue
		}
		scope := meta.RESTScopeRoot
		if namespaced {
			scope = meta.RESTScopeNamespace
		}
		mapper.Add(kind, scope)
	}
	return mapper
}

// These are the Horizontal Pod Autoscaler's clients.
func TestCustomMetricsClient(t *testing.T) {
	a := start(t, shop())
	found := custom_metrics.NewAvailableAPIsGetter(discovery.NewDiscoveryClientForConfigOrDie(a.rest()))
	if v, err := found.PreferredVersion(); err != nil || v != v1beta2.SchemeGroupVersion {
		t.Errorf("preferred version %v, %v", v, err)
	}
	clients := map[string]custom_metrics.CustomMetricsClient{
		"by discovery": custom_metrics.NewForConfig(a.rest(), clusterMapper(), found),
	}
	for _, v := range []schema.GroupVersion{v1beta1.SchemeGroupVersion, v1beta2.SchemeGroupVersion} {
		client, err := custom_metrics.NewForVersionForConfig(a.rest(), clusterMapper(), v)
		if err != nil {
			t.Fatal(err)
		}
		clients[v.Version] = client
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) { useCustomClient(t, client) })
	}
}

func useCustomClient(t *testing.T, client custom_metrics.CustomMetricsClient) {
	everything := labels.Everything()
	podKind := schema.GroupKind{Kind: "Pod"}
	pods, err := client.NamespacedMetrics("shop").GetForObjects(podKind, everything, "http_requests", everything)
	if err != nil || len(pods.Items) != 2 || pods.Items[0].Value.MilliValue() != 12500 || *pods.Items[0].WindowSeconds != 60 {
		t.Errorf("pods: %v %+v", err, pods)
	}
	api, _ := labels.Parse("path=api")
	pods, err = client.NamespacedMetrics("shop").GetForObjects(podKind, everything, "http_requests", api)
	if err != nil || len(pods.Items) != 2 || pods.Items[0].Value.MilliValue() != 10500 {
		t.Errorf("pods by metricLabelSelector: %v %+v", err, pods)
	}
	ingress, err := client.NamespacedMetrics("shop").GetForObject(schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}, "main", "hits-per-second", everything)
	if err != nil || ingress.DescribedObject.Name != "main" || ingress.Value.Value() != 10 {
		t.Errorf("ingress: %v %+v", err, ingress)
	}
	node, err := client.RootScopedMetrics().GetForObject(schema.GroupKind{Kind: "Node"}, "node-b", "temperature", everything)
	if err != nil || node.Value.MilliValue() != 41250 || node.WindowSeconds != nil {
		t.Errorf("node: %v %+v", err, node)
	}
	namespace, err := client.RootScopedMetrics().GetForObject(schema.GroupKind{Kind: "Namespace"}, "shop", "queue-length", everything)
	if err != nil || namespace.Value.Value() != 7 || namespace.DescribedObject.Kind != "Namespace" {
		t.Errorf("namespace: %v %+v", err, namespace)
	}
	if _, err := client.NamespacedMetrics("shop").GetForObject(podKind, "web-9", "http_requests", everything); !apierrors.IsNotFound(err) {
		t.Errorf("no such pod: %v", err)
	}
}

func TestExternalMetricsClient(t *testing.T) {
	client, err := external_metrics.NewForConfig(start(t, shop()).rest())
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.NamespacedMetrics("shop").List("orders_waiting", labels.Everything())
	if err != nil || len(all.Items) != 2 || all.Items[1].MetricLabels["queue"] != "us" {
		t.Errorf("%v %+v", err, all)
	}
	west, err := labels.Parse("queue=eu_west")
	if err != nil {
		t.Fatal(err)
	}
	e, err := client.NamespacedMetrics("shop").List("orders_waiting", west)
	if err != nil || len(e.Items) != 1 || e.Items[0].Value.Value() != 12 {
		t.Errorf("%v %+v", err, e)
	}
	done, err := client.NamespacedMetrics("shop").List(`jobs\|done`, labels.Everything())
	if err != nil || len(done.Items) != 1 || *done.Items[0].WindowSeconds != 60 {
		t.Errorf("%v %+v", err, done)
	}
}
