package adapter

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// recorder allows everything and records the last request.
type recorder struct {
	mu   sync.Mutex
	last string
}

func (r *recorder) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = strings.Join([]string{a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetName(), a.GetNamespace()}, ",")
	if !a.IsResourceRequest() {
		r.last = a.GetVerb() + " " + a.GetPath()
	}
	return authorizer.DecisionAllow, "", nil
}

func (r *recorder) asked() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Rights are per metric, as RBAC rules can express them: an object's metric is a subresource, a
// namespace's metric a name, an external metric a resource.
func TestRightsAttributes(t *testing.T) {
	recorder := new(recorder)
	who := anonymousAccess()
	who.authorizer = recorder
	a := running(t, prepared(t, Parts{}, who))
	a.waitReady(t)
	const custom, external = customRoot + "v1beta2/", externalRoot
	for _, c := range []struct {
		method, path string
		want         string // verb, group, resource, subresource, name, namespace
	}{
		{"GET", custom + "namespaces/shop/pods/web-1/http_requests", "get,custom.metrics.k8s.io,pods,http_requests,web-1,shop"},
		{"GET", customRoot + "v1beta1/namespaces/shop/pods/web-1/http_requests", "get,custom.metrics.k8s.io,pods,http_requests,web-1,shop"},
		{"HEAD", custom + "namespaces/shop/pods/web-1/http_requests", "get,custom.metrics.k8s.io,pods,http_requests,web-1,shop"},
		{"GET", custom + "namespaces/shop/pods/*/http_requests", "get,custom.metrics.k8s.io,pods,http_requests,*,shop"},
		{"GET", custom + "namespaces/shop/pods/*/http_requests?labelSelector=&metricLabelSelector=path%3Dapi", "get,custom.metrics.k8s.io,pods,http_requests,*,shop"},
		{"GET", custom + "namespaces/shop/pods/*/http_requests:rate:10s", "get,custom.metrics.k8s.io,pods,http_requests:rate:10s,*,shop"},
		{"GET", custom + "namespaces/shop/pods/*/http_requests%3Arate%3A10s", "get,custom.metrics.k8s.io,pods,http_requests:rate:10s,*,shop"},
		{"GET", custom + "namespaces/shop/pod/web-1/http_requests", "get,custom.metrics.k8s.io,pod,http_requests,web-1,shop"}, // another name is another right
		{"GET", custom + `namespaces/shop/pods/web-1/fs%5C%7Cusage`, `get,custom.metrics.k8s.io,pods,fs\|usage,web-1,shop`},
		{"GET", custom + "namespaces/shop/ingresses.networking.k8s.io/main/hits-per-second", "get,custom.metrics.k8s.io,ingresses.networking.k8s.io,hits-per-second,main,shop"},
		{"GET", custom + "nodes/node-a/temperature", "get,custom.metrics.k8s.io,nodes,temperature,node-a,"},
		{"GET", custom + "nodes/*/temperature", "get,custom.metrics.k8s.io,nodes,temperature,*,"},
		{"GET", custom + "namespaces/shop/metrics/queue-length", "get,custom.metrics.k8s.io,metrics,,queue-length,shop"},
		{"GET", custom + "namespaces/shop/metrics/queue-length:max:10s", "get,custom.metrics.k8s.io,metrics,,queue-length:max:10s,shop"},
		{"GET", custom + "watch/namespaces/shop/pods/web-1/http_requests", "watch,custom.metrics.k8s.io,pods,http_requests,web-1,shop"},
		{"POST", custom + "namespaces/shop/pods/web-1/http_requests", "create,custom.metrics.k8s.io,pods,http_requests,web-1,shop"},
		{"GET", external + "namespaces/shop/orders_waiting", "list,external.metrics.k8s.io,orders_waiting,,,shop"},
		{"GET", external + "namespaces/shop/orders_waiting:count:10s?labelSelector=queue%3Dus", "list,external.metrics.k8s.io,orders_waiting:count:10s,,,shop"},
		{"GET", external + `namespaces/shop/jobs%5C%7Cdone`, `list,external.metrics.k8s.io,jobs\|done,,,shop`},
		{"GET", external + "namespaces/shop/orders_waiting?watch=true", "watch,external.metrics.k8s.io,orders_waiting,,,shop"},
		{"DELETE", external + "namespaces/shop/orders_waiting", "deletecollection,external.metrics.k8s.io,orders_waiting,,,shop"},
		{"GET", "/apis", "get /apis"},
		{"GET", "/apis/custom.metrics.k8s.io/v1beta2", "get /apis/custom.metrics.k8s.io/v1beta2"},
		{"GET", "/openapi/v3", "get /openapi/v3"},
		{"GET", "/readyz", "get /readyz"},
	} {
		if _, _ = a.do(t, c.method, c.path, ""); recorder.asked() != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, recorder.asked(), c.want)
		}
	}
}

// onlyJobs is a role for the metric "jobs" of a namespace: by its name, of any resource.
type onlyJobs struct{}

func (onlyJobs) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetName() == "jobs" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "no rule allows it", nil
}

// A name that a request selects by is no name that it reads: an external metric is a resource.
func TestFieldSelectorsGiveNoRights(t *testing.T) {
	who := anonymousAccess()
	who.authorizer = onlyJobs{}
	a := running(t, prepared(t, Parts{Source: shop()}, who))
	for path, want := range map[string]int{
		externalRoot + "namespaces/shop/orders_waiting":                                                http.StatusForbidden,
		externalRoot + "namespaces/shop/orders_waiting?fieldSelector=metadata.name%3Djobs":             http.StatusBadRequest,
		customRoot + "v1beta2/namespaces/shop/pods/*/http_requests?fieldSelector=metadata.name%3Djobs": http.StatusBadRequest,
		externalRoot + "namespaces/shop/orders_waiting?fieldSelector=":                                 http.StatusForbidden,
	} {
		if resp, body := a.do(t, "GET", path, ""); resp.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
}

// Nothing is answered outside of the authorized path.
func TestNothingIsAnsweredBesideTheRight(t *testing.T) {
	recorder := new(recorder)
	who := anonymousAccess()
	who.authorizer = recorder
	a := running(t, prepared(t, Parts{}, who))
	a.waitReady(t)
	for _, path := range []string{
		"watch/namespaces/shop/pods/web-1/http_requests", "watch/nodes/node-a/temperature", "proxy/nodes/node-a/temperature",
		"watch/namespaces/shop/metrics/queue-length", "namespaces/shop/metrics/queue-length/more", "metrics/shop/queue-length",
	} {
		if resp, body := a.get(t, customRoot+"v1beta2/"+path, ""); resp.StatusCode < http.StatusBadRequest {
			t.Errorf("%s: %d, allowed by %q: %s", path, resp.StatusCode, recorder.asked(), body)
		}
	}
}
