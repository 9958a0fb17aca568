package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The pods push; autoscalers of a Deployment's and of a Service's metric read the roll-up of the
// pods.
func scalesOnRollUps(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "rollup")
	c.Apply(t, ns, deployment("web"), deployment("api"), `
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: api}, ports: [{port: 80}]}
`, example(t, "hpa-rollup.yaml", ns))
	c.route(t, ns, "api")
	c.startLoad(t, ns, "app=web", 100, func(n int64) string { return strings.TrimSuffix(strings.Repeat("latency:400|ms\n", int(n)), "\n") })
	c.startLoad(t, ns, "app=api", 250, requests)
	c.wantReplicas(t, ns, "web", 4) // each sync doubles, up to the maximum
	c.wantReplicas(t, ns, "api", 3)
	c.steady(t, ns, "api", 3, 20*time.Second)
	c.noWarnings(t, ns, "api-rollup")
	within(t, func() error {
		body, err := c.Get(t.Context(), "/apis/inspect.sluice.dev/v1alpha1/namespaces/"+ns+"/autoscalers/api-rollup")
		if err == nil && !strings.Contains(string(body), `"values":3,"pods":3`) {
			err = fmt.Errorf("the autoscaler's document counts other pods: %s", body)
		}
		return err
	})
	pods := c.running(t.Context(), ns, "app=api")
	if text := c.push(t, addressOf(t, pods[0]), http.MethodGet, "/v1/namespaces/"+ns+"/services/api/http_requests:rate:10s", "", http.StatusOK); !strings.Contains(text, `"pods":{"with":3,"of":3}`) {
		t.Errorf("over HTTP: %s", text)
	}
	if text := c.Kubectl(t, "get", "--raw", custom+"/namespaces/"+ns+"/services/*/http_requests:rate:10s"); !strings.Contains(text, `"name":"api"`) {
		t.Errorf("of all Services: %s", text)
	}
	if all, err := c.values(t, "/namespaces/"+ns+"/deployments.apps/*/latency:p95:10s"); err != nil || len(all) != 1 || all["web"] < 396 || all["web"] > 404 {
		t.Errorf("of all Deployments: %v, %v", all, err)
	}
}

// route keeps the EndpointSlice of a Service, as the control plane's controller would: that one
// accepts no pods of 127.0.0.0/8.
func (c *cluster) route(t *testing.T, namespace, service string) {
	t.Helper()
	client := c.Kubernetes.DiscoveryV1().EndpointSlices(namespace)
	ctx, stop := context.WithCancel(t.Context())
	slice, err := client.Create(ctx, &discovery.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Labels: map[string]string{discovery.LabelServiceName: service}},
		AddressType: discovery.AddressTypeIPv4,
	}, metav1.CreateOptions{})
	must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(loadEvery) {
			endpoints := endpointsOf(c.running(ctx, namespace, "app="+service))
			if sameTargets(endpoints, slice.Endpoints) {
				continue
			}
			slice.Endpoints = endpoints
			if changed, err := client.Update(ctx, slice, metav1.UpdateOptions{}); err == nil {
				slice = changed
			} else if ctx.Err() == nil {
				t.Errorf("EndpointSlice of %s: %v", service, err)
				return
			}
		}
	}()
}

func endpointsOf(pods []core.Pod) (all []discovery.Endpoint) {
	for i, pod := range pods {
		all = append(all, discovery.Endpoint{
			Addresses: []string{fmt.Sprintf("192.0.2.%d", i+1)}, Conditions: discovery.EndpointConditions{Ready: new(true)},
			TargetRef: &core.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		})
	}
	return all
}

func sameTargets(a, b []discovery.Endpoint) bool {
	return slices.EqualFunc(a, b, func(a, b discovery.Endpoint) bool { return a.TargetRef.UID == b.TargetRef.UID })
}
