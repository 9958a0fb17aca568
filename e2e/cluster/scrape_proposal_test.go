package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
)

// serves has a pod serve pages of text at a port, by path.
func serves(t *testing.T, pod core.Pod, port uint16, pages map[string]string) {
	t.Helper()
	servePage(t, netip.AddrPortFrom(addressOf(t, pod), port), func(to http.ResponseWriter, r *http.Request) {
		page, has := pages[r.URL.Path]
		if !has {
			http.NotFound(to, r)
			return
		}
		_, _ = io.WriteString(to, page)
	})
}

// announced makes a pod with the annotation of the proposal.
func (c *cluster) announced(t *testing.T, ns, name, endpoints string) core.Pod {
	t.Helper()
	c.Apply(t, ns, podManifest(name, "default"))
	pod := c.AwaitPods(t, ns, "app="+name, 1)[0]
	c.Kubectl(t, "annotate", "pod", "-n", ns, name, "metrics.alpha.kubernetes.io/custom-endpoints="+endpoints)
	return pod
}

// The proposal's example, with the comma that it lacks. Of each page the named metrics are taken and no other; an endpoint
// without an api is in Prometheus' format; nothing but the two pages is asked for.
func theProposalsExample(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "proposal")
	pod := c.announced(t, ns, "proposed", `[
		{"api": "prometheus", "path": "/status", "port": "8080", "names": ["qps", "activeConnections"]},
		{"path": "/metrics", "port": "9090", "names": ["myMetric"]}]`)
	serves(t, pod, 8080, map[string]string{"/status": "qps 7\nactiveConnections 30\nmyMetric 1\nother 1\n", "/metrics": "qps 1\n"})
	serves(t, pod, 9090, map[string]string{"/metrics": "myMetric 12\nqps 2\n", "/status": "myMetric 2\n"})
	path := "/namespaces/" + ns + "/pods/*/"
	for name, want := range map[string]float64{"qps": 7, "activeConnections": 30, "myMetric": 12} {
		c.wantValues(t, path+name, map[string]float64{"proposed": want})
	}
	if got, err := c.values(t, path+"other"); err == nil {
		t.Errorf("a metric that is not named is taken: %v", got)
	}
}

// Of six named metrics five are taken. The sixth is rejected, which the list of targets says, until a LimitRange allows it.
func fiveMetrics(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "five")
	pod := c.announced(t, ns, "six", `[{"port": 8080, "names": ["a", "b", "c", "d", "e", "f"]}]`)
	serves(t, pod, 8080, map[string]string{"/metrics": "a 1\nb 1\nc 1\nd 1\ne 1\nf 1\n"})
	path := "/namespaces/" + ns + "/pods/*/"
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		c.wantValues(t, path+name, map[string]float64{"six": 1})
	}
	within(t, func() error {
		targets, err := c.targets(t, ns)
		if err == nil && (len(targets) != 1 || targets[0].State != "up" || !strings.Contains(targets[0].Error, "1 of 6 samples were rejected")) {
			err = fmt.Errorf("targets %+v", targets)
		}
		return err
	})
	if got, err := c.values(t, path+"f"); err == nil {
		t.Errorf("a sixth metric is taken: %v", got)
	}
	c.Apply(t, ns, `
apiVersion: v1
kind: LimitRange
metadata: {name: metrics}
spec: {limits: [{type: sluice.dev/Pod, max: {sluice.dev/metrics: "6"}}]}
`)
	c.wantValues(t, path+"f", map[string]float64{"six": 1})
}

// An engine that pushes its queue is scaled as one whose page is read.
func scalesOnAnEngine(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "engine")
	c.Apply(t, ns, example(t, "hpa-engine.yaml", ns))
	pod := c.AwaitPods(t, ns, "app=engine", 1)[0]
	c.awaitSender(t, ns, pod.Name)
	c.sendFrom(t, addressOf(t, pod), "engine_requests_waiting:12|g")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/engine_requests_waiting:max:10s", map[string]float64{pod.Name: 12})
	c.wantReplicas(t, ns, "engine", 3)
}

// A pod whose page is read pushes StatsD, too: about itself, and what describes no pod.
func besidePushes(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "both")
	pod := c.announced(t, ns, "both", `[{"port": 8080, "names": "depth"}]`)
	serves(t, pod, 8080, map[string]string{"/metrics": "depth 3\n"})
	c.awaitSender(t, ns, "both")
	c.sendFrom(t, addressOf(t, pod), "jobs:5|c")
	c.push(t, addressOf(t, pod), http.MethodPut, "/v1/namespaces/"+ns+"/external/orders", "9", http.StatusOK)
	path := "/namespaces/" + ns + "/pods/*/"
	c.wantValues(t, path+"depth", map[string]float64{"both": 3})
	c.wantValues(t, path+"jobs:total", map[string]float64{"both": 5})
	within(t, func() error {
		body, err := c.Get(t.Context(), "/apis/external.metrics.k8s.io/v1beta1/namespaces/"+ns+"/orders")
		if err == nil && !strings.Contains(string(body), `"value":"9"`) {
			err = fmt.Errorf("orders: %s", body)
		}
		return err
	})
}
