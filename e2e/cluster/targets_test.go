package cluster

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod makes one, and waits until it is ready, and until Sluice credits to it what it sends.
func (c *cluster) pod(t *testing.T, namespace, name, account string) core.Pod {
	t.Helper()
	c.Apply(t, namespace, podManifest(name, account))
	pod := c.AwaitPods(t, namespace, "app="+name, 1)[0]
	c.awaitSender(t, namespace, name)
	return pod
}

func podManifest(name, account string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  serviceAccountName: %[2]s
  containers: [{name: main, image: shop/main:1}]
`, name, account)
}

// repeat sends a datagram from an address every loadEvery until the test ends.
func (c *cluster) repeat(t *testing.T, from netip.Addr, datagram func() string) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(loadEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = c.trySendFrom(from, datagram())
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

// An ingress controller that is trusted to speak for others drives the autoscaler of what stands
// behind an Ingress.
func scalesOnAnObject(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "object")
	controller := c.pod(t, c.forwarders(t), "controller-"+ns, "controller")
	c.Apply(t, ns, deployment("front"), `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: main}
spec:
  rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: front, port: {number: 80}}}}]}}]
`, example(t, "hpa-object.yaml", ns))
	c.repeat(t, addressOf(t, controller), func() string {
		return "hits:25|c|#sluice_object:ingresses/main,namespace:" + ns
	})
	// 250 a second, and a pod for every 100 of them. It stays so over several syncs.
	c.wantReplicas(t, ns, "front", 3)
	c.steady(t, ns, "front", 3, 20*time.Second)
	c.noWarnings(t, ns, "front")
}

// forwarders is the namespace of the service account that the values name.
func (c *cluster) forwarders(t *testing.T) string {
	t.Helper()
	c.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: ingress}\n")
	return "ingress"
}

// A batch job's push of a queue's length scales the workers by it; another queue of the same name
// plays no part.
func scalesOnAnExternal(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "external")
	hpa := example(t, "hpa-external.yaml", ns)
	c.Apply(t, ns, deployment("worker"), hpa)
	// The controller asks for external metrics in lower case, whatever the spec says.
	c.Apply(t, ns, deployment("shouter"), strings.NewReplacer("worker", "shouter", "queue_depth", "QUEUE_Depth").Replace(hpa))
	batch := addressOf(t, c.pod(t, ns, "batch", "default"))
	path := "/v1/namespaces/" + ns + "/external/queue_depth?label=queue="
	c.push(t, batch, http.MethodPut, path+"mail", "30", http.StatusOK)
	c.push(t, batch, http.MethodPut, path+"print", "5000", http.StatusOK)
	c.wantReplicas(t, ns, "worker", 3)
	c.wantReplicas(t, ns, "shouter", 3)
	c.steady(t, ns, "worker", 3, 6*time.Second)
	c.noWarnings(t, ns, "worker")
	c.push(t, batch, http.MethodPut, path+"mail", "0", http.StatusOK)
	c.wantReplicas(t, ns, "worker", 1)
}

// A Pushgateway client of a pod pushes to its own namespace without saying so, and nobody else
// reads or deletes that.
func takesWhatAPushgatewayTakes(t *testing.T, c *cluster) {
	ns, other := c.Namespace(t, "gateway"), c.Namespace(t, "elsewhere")
	batch, stranger := addressOf(t, c.pod(t, ns, "batch", "default")), addressOf(t, c.pod(t, other, "stranger", "default"))
	const group = "/metrics/job/import"
	c.push(t, batch, http.MethodPut, group, "# TYPE rows_total counter\nrows_total 100\nqueue_length{queue=\"mail\"} 17\n", http.StatusOK)
	c.push(t, batch, http.MethodPut, group, "# TYPE rows_total counter\nrows_total 160\nqueue_length{queue=\"mail\"} 18\n", http.StatusOK)
	for metric, want := range map[string]string{"queue_length": `"value":"18"`, "rows_total:count": `"value":"60"`, "rows_total:total": `"value":"160"`} {
		body, err := c.Get(t.Context(), external+"/namespaces/"+ns+"/"+metric)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v; want %s", metric, body, err, want)
		}
	}
	if text := c.push(t, stranger, http.MethodGet, "/metrics", "", http.StatusOK); strings.Contains(text, "rows_total") {
		t.Errorf("a pod of another namespace reads\n%s", text)
	}
	c.push(t, stranger, http.MethodDelete, group+"/namespace/"+ns, "", http.StatusUnauthorized)
	series := fmt.Sprintf(`queue_length{instance="",job="import",namespace=%q,queue="mail"} 18`, ns)
	if text := c.push(t, batch, http.MethodGet, "/metrics", "", http.StatusOK); !strings.Contains(text, series) {
		t.Errorf("the pod that pushed reads\n%s", text)
	}
	c.push(t, batch, http.MethodDelete, group, "", http.StatusAccepted)
	if body, err := c.Get(t.Context(), external+"/namespaces/"+ns+"/queue_length"); err == nil {
		t.Errorf("once it is deleted: %s", body)
	}
}

// push sends a value over HTTP from an address.
func (c *cluster) push(t *testing.T, from netip.Addr, method, path, body string, want int) string {
	t.Helper()
	status, text, err := c.ask(t, from, method, path, body)
	if err != nil || status != want {
		t.Fatalf("%s %s: %d %s (%v), want %d", method, path, status, text, err, want)
	}
	return text
}

// ask sends a request to the push port from an address, as the pod that has it would.
func (c *cluster) ask(t *testing.T, from netip.Addr, method, path, body string) (status int, text string, err error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dialer.DialContext}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.sluice.HTTP+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(read), err
}

func scalesOnANamespace(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "namespace")
	c.Apply(t, ns, deployment("billing"), example(t, "hpa-namespace.yaml", ns))
	one := addressOf(t, c.pod(t, ns, "accountant", "default"))
	c.repeat(t, one, func() string { return "backlog:80|g|#sluice_object:namespaces/" + ns })
	c.wantReplicas(t, ns, "billing", 2)
	c.steady(t, ns, "billing", 2, 20*time.Second)
	c.noWarnings(t, ns, "billing")
}

// The 95th percentile over ten seconds: one request in ten is slow.
func scalesOnLatency(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "latency")
	c.Apply(t, ns, deployment("api"), example(t, "hpa-latency.yaml", ns))
	c.AwaitPods(t, ns, "app=api", 1)
	traffic := c.startLoad(t, ns, "app=api", 100, func(n int64) string {
		return strings.TrimSuffix(strings.Repeat("latency:12:15:11:9:20:13:8:14:10:520|ms\n", int(n)), "\n")
	})
	c.wantReplicas(t, ns, "api", 5)
	c.noWarnings(t, ns, "api")
	pods, err := c.values(t, "/namespaces/"+ns+"/pods/*/latency:p95:10s")
	if err != nil || len(pods) == 0 {
		t.Fatal(pods, err)
	}
	for pod, value := range pods {
		if value < 520*0.99 || value > 520*1.01 {
			t.Errorf("%s: p95 is %v, want 520 within 1 %%", pod, value)
		}
	}
	traffic.end()
}

// A metric's name is authorised as a subresource, each by itself.
func rightsPerMetric(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "rights")
	one := c.pod(t, ns, "one", "default")
	c.sendFrom(t, addressOf(t, one), "http_requests:5|c\nsecret:1|g")
	c.Apply(t, ns, controlplane.Role("requests", controlplane.User("jane"),
		"{apiGroups: [custom.metrics.k8s.io], resources: [pods/http_requests], verbs: [get, list]}"))
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/secret", map[string]float64{"one": 1})
	jane := c.As(t, "jane")
	within(t, func() error { // a refusal is remembered for some seconds
		_, err := jane.Get(t.Context(), custom+"/namespaces/"+ns+"/pods/*/http_requests")
		return err
	})
	for _, path := range []string{
		custom + "/namespaces/" + ns + "/pods/*/secret",
		custom + "/namespaces/" + ns + "/pods/one/secret",
		custom + "/namespaces/" + ns + "/pods/*/http_requests:count",
		custom + "/namespaces/default/pods/*/http_requests",
		external + "/namespaces/" + ns + "/http_requests",
	} {
		if _, err := jane.Get(t.Context(), path); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: %v, want forbidden", path, err)
		}
	}
}

// kubectl sees what there is, and nothing that it does is held up.
func kubectlIsAtHome(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "kubectl")
	one := c.pod(t, ns, "one", "default")
	c.sendFrom(t, addressOf(t, one), "at_home:5|g\nfar_away:3|g|#sluice_object:external")
	c.wantValues(t, "/namespaces/"+ns+"/pods/one/at_home", map[string]float64{"one": 5})
	// The API server refreshes each API group once a minute, from a copy for all groups of a server
	// that may be as old again.
	within(t, func() error {
		if out := c.Kubectl(t, "api-resources", "--api-group=external.metrics.k8s.io", "--cached=false"); !strings.Contains(out, "far_away") {
			return fmt.Errorf("kubectl api-resources says\n%s\nwant far_away", out)
		}
		return nil
	})
	for _, want := range [][]string{
		{"get", "--raw", custom, "pods/at_home"},
		{"get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1/namespaces/" + ns + "/pods/*/at_home", `"value":"5"`},
		{"get", "--raw", custom + "/namespaces/" + ns + "/pods/*/at_home?labelSelector=app%3Done", `"value":"5"`},
		{"get", "--raw", external + "/namespaces/" + ns + "/far_away", `"value":"3"`},
	} {
		args, part := want[:len(want)-1], want[len(want)-1]
		if out := c.Kubectl(t, args...); !strings.Contains(out, part) {
			t.Errorf("kubectl %v says\n%s\nwant %s in it", args, out, part)
		}
	}
	if out, err := c.TryKubectl(t, "get", "--raw", custom+"/namespaces/"+ns+"/pods/*/at_home?labelSelector=app%3Dtwo"); err == nil {
		t.Errorf("a selector that picks no pod: %s", out)
	}
	for _, line := range strings.Split(strings.TrimSpace(c.Kubectl(t, "get", "apiservices", "--no-headers")), "\n") {
		if strings.Contains(line, "metrics.k8s.io") && !strings.Contains(line, "True") {
			t.Errorf("kubectl get apiservices says %q", line)
		}
	}
	empty := c.Namespace(t, "gone")
	c.Kubectl(t, "delete", "namespace", empty, "--wait=false")
	within(t, func() error {
		_, err := c.Kubernetes.CoreV1().Namespaces().Get(t.Context(), empty, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("namespace %s is still there", empty)
		}
		return nil
	})
}
