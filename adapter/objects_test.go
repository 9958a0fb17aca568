package adapter

import (
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// town is a Cluster as a test sets it up: pods by name, with their labels, and a custom resource.
type town struct {
	*builtin.Resources
	mu   sync.Mutex
	pods map[string]labels.Set
	// unready pods; all others are ready. All belong to the workload "web".
	unready map[string]bool
}

func newTown() *town {
	return &town{Resources: builtin.New(), pods: map[string]labels.Set{
		"web-1": {"app": "web", "tier": "front"},
		"web-2": {"app": "web"},
	}}
}

func (c *town) FindResource(resource string) (schema.GroupVersionKind, schema.GroupResource, bool, error) {
	if resource == "widgets" || resource == "widgets.example.com" {
		return schema.GroupVersionKind{Group: "example.com", Version: "v2alpha1", Kind: "Widget"},
			schema.GroupResource{Group: "example.com", Resource: "widgets"}, true, nil
	}
	return c.Resources.FindResource(resource)
}

func (c *town) Alive(object metric.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, lives := c.pods[object.Name]
	return lives || object.Resource != "pods"
}

func (c *town) ReadyPods(namespace string) (iter.Seq2[metric.Object, metric.Workload], int) {
	return c.readyPods(namespace, labels.Everything())
}

func (c *town) PodOwners(resource, namespace, name string) ([]metric.PodOwner, error) {
	return nil, nil
}

func (c *town) readyPods(namespace string, selector labels.Selector) (iter.Seq2[metric.Object, metric.Workload], int) {
	return func(yield func(metric.Object, metric.Workload) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for name, set := range c.pods {
			o := pod(name)
			if o.Namespace == namespace && !c.unready[name] && selector.Matches(set) && !yield(o, metric.Workload{UID: "web"}) {
				return
			}
		}
	}, len(c.pods)
}

func (c *town) ReadyPod(namespace, name string) (metric.Object, metric.Workload, bool) {
	_, lives := c.pods[name]
	return pod(name), metric.Workload{UID: "web"}, lives && !c.unready[name]
}

func (c *town) PodsGoneSince(uint64) ([]metric.Object, uint64, bool) { return nil, 0, false }

func (c *town) SelectObjects(resource, namespace string, selector labels.Selector) (metric.ObjectFilter, error) {
	if resource != "pods" {
		return metric.ObjectFilter{}, metric.InvalidQueryf("labelSelector %q: the labels of %s are not watched: see the setting object-kinds", selector, resource)
	}
	return metric.ObjectFilter{ReadyPods: func() (iter.Seq2[metric.Object, metric.Workload], int) {
		return c.readyPods(namespace, selector)
	}, Match: func(object metric.Object) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		set, lives := c.pods[object.Name]
		return lives && object.Namespace == namespace && selector.Matches(set)
	}}, nil
}

func (c *town) kill(pod string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, pod)
}

// startInCluster runs a server with a cluster and without authentication.
func startInCluster(t *testing.T, source Source, cluster Cluster) *api {
	t.Helper()
	a := running(t, prepared(t, Parts{Source: source, Cluster: cluster}, anonymousAccess()))
	a.waitReady(t)
	return a
}

// described lists the objects in an answer: kind, apiVersion, namespace and name.
func (a *api) described(t *testing.T, path string) []string {
	t.Helper()
	resp, body := a.get(t, customRoot+"v1beta2/"+path, "application/json")
	if resp.StatusCode == http.StatusNotFound {
		return nil
	}
	var list struct {
		Items []struct {
			DescribedObject struct{ Kind, APIVersion, Namespace, Name string }
		}
	}
	if err := json.Unmarshal(body, &list); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", path, resp.StatusCode, err, body)
	}
	var all []string
	for _, item := range list.Items {
		o := item.DescribedObject
		all = append(all, strings.Join([]string{o.Kind, o.APIVersion, o.Namespace, o.Name}, " "))
	}
	return all
}

func TestObjectsArePickedByTheirLabelsAndLives(t *testing.T) {
	m := shop()
	m.put(held{pod("gone"), "http_requests", metric.Counter, labelled(), metric.Int(1000), noon},
		held{metric.Object{Resource: "widgets.example.com", Namespace: "shop", Name: "w"}, "turns", metric.Gauge, labelled(), metric.Int(3), noon})
	const web1, web2 = "Pod v1 shop web-1", "Pod v1 shop web-2"
	a := startInCluster(t, m, newTown())
	for _, c := range []struct {
		path string
		want []string
	}{
		{"namespaces/shop/pods/*/http_requests", []string{web1, web2}},
		{"namespaces/shop/pods/*/http_requests?labelSelector=", []string{web1, web2}},
		{"namespaces/shop/pods/*/http_requests?labelSelector=app%3Dweb", []string{web1, web2}},
		{"namespaces/shop/pods/*/http_requests?labelSelector=tier%3Dfront", []string{web1}},
		{"namespaces/shop/pods/*/http_requests?labelSelector=%21tier", []string{web2}},
		{"namespaces/shop/pods/*/http_requests?labelSelector=app%3Dother", nil},
		{"namespaces/shop/pods/*/http_requests?labelSelector=app%3Dweb&metricLabelSelector=path%3Dlogin", []string{web1}},
		{"namespaces/shop/pods/web-1/http_requests", []string{web1}},
		{"namespaces/shop/pods/web-1/http_requests?labelSelector=app%3Dother", []string{web1}}, // as the library does
		{"namespaces/shop/pods/gone/http_requests", nil},
		{"namespaces/shop/pods/gone/http_requests?labelSelector=app%3Dweb", nil},
		{"namespaces/shop/metrics/queue-length", []string{"Namespace v1  shop"}},
		{"nodes/*/temperature", []string{"Node v1  node-a", "Node v1  node-b"}},
		{"namespaces/shop/ingress/main/hits-per-second", []string{"Ingress networking.k8s.io/v1 shop main"}},
		{"namespaces/shop/widgets/*/turns", []string{"Widget example.com/v2alpha1 shop w"}},
		{"namespaces/shop/ingresses/main/hits-per-second?labelSelector=a%3Db", []string{"Ingress networking.k8s.io/v1 shop main"}},
	} {
		if got := a.described(t, c.path); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
}

// The autoscaler averages over all items, whether or not the pod still exists
// (replica_calculator.go).
func TestDeadPodIsOutOfTheNextAnswer(t *testing.T) {
	cluster := newTown()
	a := startInCluster(t, shop(), cluster)
	const all = "namespaces/shop/pods/*/http_requests"
	if got := a.described(t, all); len(got) != 2 {
		t.Fatalf("%q", got)
	}
	cluster.kill("web-1")
	for _, path := range []string{all, all + "?labelSelector=app%3Dweb"} {
		if got := a.described(t, path); !slices.Equal(got, []string{"Pod v1 shop web-2"}) {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := a.described(t, "namespaces/shop/pods/web-1/http_requests"); got != nil {
		t.Errorf("asked for by name: %q", got)
	}
}

func TestLabelsThatAreNotWatchedAreRefused(t *testing.T) {
	a := startInCluster(t, shop(), newTown())
	for _, version := range []string{"v1beta1/", "v1beta2/"} {
		a.refuses(t, customRoot+version+"namespaces/shop/ingresses/*/hits-per-second?labelSelector=app%3Dweb",
			400, "BadRequest", "object-kinds")
	}
}

func TestDiscoveryListsTheClustersResources(t *testing.T) {
	m := new(memory)
	m.put(held{metric.Object{Resource: "widgets.example.com", Namespace: "shop", Name: "w"}, "turns", metric.Gauge, labelled(), metric.Int(3), noon},
		held{metric.Object{Resource: "uninstalled.example.com", Namespace: "shop", Name: "x"}, "turns", metric.Gauge, labelled(), metric.Int(3), noon})
	a := startInCluster(t, m, newTown())
	if got := a.names(t, "custom.metrics.k8s.io/v1beta2"); !slices.Equal(got, []string{"widgets.example.com/turns"}) {
		t.Errorf("%q", got)
	}
}
