package cluster

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubelet plays the page of a node's kubelet: the containers of a namespace's pods use what the test says. It measures each container
// every ten seconds, at moments of its own, and says the newest measurement until then.
type kubelet struct {
	*cluster
	server    *httptest.Server
	namespace string

	mu       sync.Mutex         // guards the fields below
	cores    float64            // of each pod
	more     map[string]float64 // of some, by name
	measured map[string]measurement
}

type measurement struct {
	started, at time.Time
	cpu         float64
}

func newKubelet(t *testing.T, c *cluster, namespace string) *kubelet {
	k := &kubelet{cluster: c, namespace: namespace, measured: map[string]measurement{}}
	k.server = httptest.NewTLSServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.server.Close)
	return k
}

func (k *kubelet) address() string { return strings.TrimPrefix(k.server.URL, "https://") }

func (k *kubelet) use(cores float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cores = cores
}

func (k *kubelet) useMore(pod string, cores float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.more = map[string]float64{pod: cores}
}

func (k *kubelet) serve(w http.ResponseWriter, r *http.Request) {
	pods, err := k.Kubernetes.CoreV1().Pods(k.namespace).List(r.Context(), metav1.ListOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now().Truncate(time.Millisecond) // as the page has it
	for _, pod := range pods.Items {
		if pod.Status.Phase != "Running" {
			continue
		}
		m, known := k.measured[string(pod.UID)]
		if !known {
			m = measurement{started: now, at: now, cpu: 1e-9}
		}
		if passed := now.Sub(m.at); passed >= 10*time.Second {
			m.cpu, m.at = m.cpu+(k.cores+k.more[pod.Name])*passed.Seconds(), now
		}
		k.measured[string(pod.UID)] = m
		labels := fmt.Sprintf(`{container=%q,namespace=%q,pod=%q}`, pod.Spec.Containers[0].Name, pod.Namespace, pod.Name)
		fmt.Fprintf(w, "container_cpu_usage_seconds_total%s %.9f %d\n", labels, m.cpu, m.at.UnixMilli())
		fmt.Fprintf(w, "container_memory_working_set_bytes%s 5.0331648e+07 %d\n", labels, m.at.UnixMilli())
		fmt.Fprintf(w, "container_start_time_seconds%s %.3f\n", labels, float64(m.started.UnixMilli())/1000)
	}
	fmt.Fprintf(w, "node_cpu_usage_seconds_total %.3f\nnode_memory_working_set_bytes 2.147483648e+09\n", 1.5*float64(now.Unix()))
}

// usageRights lets servers see nodes.
var usageRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sluice-nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list, watch]}]
---` + controlplane.ClusterRoleBinding("sluice-nodes", "sluice-nodes", controlplane.Account("sluice", "sluice"))

var usageReader = controlplane.ServiceAccount("reader") + "---" +
	controlplane.ClusterRoleBinding("usage-reader", "cluster-admin", controlplane.Account("sluice", "reader"))

const usedWeb = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: bash:5
        resources: {requests: {cpu: 100m}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 4
  metrics:
  - type: KIND
`

// An autoscaler scales on cpu that the node's agent reads from the kubelet, and kubectl top shows it. A pod that is created under the
// name of another one has none of its usage.
func TestUsage(t *testing.T) {
	t.Parallel()
	c, ns := newAgents(t), "shop"
	c.Kubectl(t, "create", "namespace", ns)
	kubelet := newKubelet(t, c.cluster, ns)
	kubelet.use(0.05)
	_, port, err := net.SplitHostPort(c.sluice.API)
	must(t, err)
	for _, api := range []string{"v1beta1.metrics.k8s.io", "v1.metrics.k8s.io", "v1alpha1.usage.sluice.dev"} {
		c.Apply(t, "", controlplane.APIService(api, "sluice", "sluice-api", port))
	}
	c.Apply(t, "sluice", usageRights)
	c.sluice.Stop()
	c.sluice.Add("--api-resource-metrics", "--object-kinds", "namespaces,services,deployments.apps,statefulsets.apps,nodes")
	c.sluice.Start()
	c.near.Add("--kubelet-address", kubelet.address(), "--kubelet-insecure-tls", "--kubelet-interval", "2s")
	c.starts(t, c.near)
	c.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1beta1.metrics.k8s.io", "apiservice/v1.metrics.k8s.io", "apiservice/v1alpha1.usage.sluice.dev")

	c.Apply(t, ns, strings.ReplaceAll(usedWeb, "  - type: KIND", "  - type: Resource\n    resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}\n"+
		"  - type: ContainerResource\n    containerResource: {name: cpu, container: web, target: {type: Utilization, averageUtilization: 50}}"))
	c.AwaitPods(t, ns, "app=web", 1)
	within(t, func() error {
		out, err := c.TryKubectl(t, "top", "pods", "-n", ns, "-l", "app=web", "--containers", "--no-headers")
		if fields := strings.Fields(out); err != nil || len(fields) != 4 || fields[1] != "web" || fields[2] != "50m" || fields[3] != "48Mi" {
			return fmt.Errorf("kubectl top pods: %v\n%s", err, out)
		}
		return nil
	})
	if out := c.Kubectl(t, "top", "nodes", "--no-headers"); !strings.Contains(out, "loopback") {
		t.Errorf("kubectl top nodes:\n%s", out)
	}
	for _, version := range []string{"v1", "v1beta1"} {
		if out := c.Kubectl(t, "get", "pods."+version+".metrics.k8s.io", "-n", ns); !strings.Contains(out, "48Mi") {
			t.Errorf("kubectl get of %s:\n%s", version, out)
		}
	}
	c.pod(t, ns, "solo", "default")
	kubelet.use(0.2) // of 0.1 a pod, four times as much as wanted
	c.wantReplicas(t, ns, "web", 4)

	// The same, over a window that no resource metric has.
	c.Apply(t, ns, strings.NewReplacer("web", "batch", "  - type: KIND", "  - type: Pods\n    pods: {metric: {name: \"cpu:max:1h\"}, "+
		"target: {type: AverageValue, averageValue: 100m}}").Replace(usedWeb))
	c.wantReplicas(t, ns, "batch", 4)
	for path, want := range map[string]string{
		"namespaces/" + ns + "/pods/solo/cpu:p95:1h": `"value":"200m"`, "namespaces/" + ns + "/pods/solo/memory": `"value":"50331648"`,
		"nodes/loopback/memory:max:1d": `"value":"2147483648"`, "nodes/*/memory:mean:10s": `"value":"2147483648"`,
	} {
		within(t, func() error {
			out, err := c.TryKubectl(t, "get", "--raw", "/apis/custom.metrics.k8s.io/v1beta2/"+path)
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("%s says %s, want %s", path, out, want)
			}
			return err
		})
	}

	// The windows have the pod's usage, and those of a pod of the same name that comes after it have none of it.
	within(t, func() error {
		out, err := c.TryKubectl(t, "get", "derivedpods", "-n", ns, "solo", "-o", "jsonpath={.containers[0].metrics.1h.max.cpu}")
		if err != nil || out != "200m" {
			return fmt.Errorf("the pod used at most %q (%v), want 200m", out, err)
		}
		return nil
	})
	kubelet.use(0.05)
	c.Kubectl(t, "delete", "pod", "-n", ns, "solo")
	c.pod(t, ns, "solo", "default")
	within(t, func() error {
		out, err := c.TryKubectl(t, "get", "derivedpods", "-n", ns, "solo", "-o", "jsonpath={.containers[0].metrics.1h.max.cpu}")
		if err != nil || out == "" {
			return fmt.Errorf("the next pod of the name has no usage yet: %v", err)
		}
		if used, err := resource.ParseQuantity(out); err != nil || used.MilliValue() >= 100 {
			t.Errorf("the next pod of the name used %s (%v), want its own 50m; the former one used 200m", out, err)
		}
		return nil
	})
	usageForReaders(t, c, ns)
	c.pod(t, ns, "web-0", "default")
	walksThroughUsage(t, c.cluster)
	kubelet.useMore("solo", 0.3)
	within(t, func() error {
		out, err := c.TryKubectl(t, "top", "pods", "-n", ns, "--sort-by=cpu", "--no-headers")
		if err == nil && !strings.HasPrefix(out, "solo ") {
			err = fmt.Errorf("kubectl top pods --sort-by=cpu begins with another pod than the busiest:\n%s", out)
		}
		return err
	})
	if out := c.Kubectl(t, "get", "derivednodes"); !strings.Contains(out, "loopback") || !strings.Contains(out, "CPU 10S") {
		t.Errorf("kubectl get derivednodes:\n%s", out)
	}
	t.Log(c.Kubectl(t, "get", "derivedpods", "-n", ns, "-o", "wide"))

	for _, name := range strings.Fields(c.Kubectl(t, "get", "hpa", "-n", ns, "web", "-o", "jsonpath={.status.currentMetrics[*].type}")) {
		if name != "Resource" && name != "ContainerResource" {
			t.Errorf("the autoscaler has a metric of type %s", name)
		}
	}
	asksForOne(t, c, ns)
}

// walksThroughUsage runs the commands of docs/usage.md, to the letter but for Helm's, of which the chart's tests have the values.
func walksThroughUsage(t *testing.T, c *cluster) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "usage.md"))
	must(t, err)
	want := []string{ // of each command, in their order
		"web-0 .* main ", "loopback", "shop .* web-0 ", "loopback", `"name":"web-0"`, "shop .* web-0 ", `"name":"web-0"`, "namespace/sluice", `"name":"web-0"`}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for command := range strings.Lines(block[1]) {
			if strings.HasPrefix(command, "helm upgrade ") {
				continue
			}
			if len(want) == 0 {
				t.Fatalf("docs/usage.md has another command: %s", command)
			}
			within(t, func() error {
				out, err := c.TryShell(t, command)
				if err != nil || !regexp.MustCompile(want[0]).MatchString(out) {
					return fmt.Errorf("%s: %v\n%s", command, err, out)
				}
				return nil
			})
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("docs/usage.md lacks commands with the outputs %q", want)
	}
}

// usageForReaders checks that rights on pods and on nodes are apart, that who may read may watch, and which paths there are not.
func usageForReaders(t *testing.T, c *agents, ns string) {
	t.Helper()
	c.Kubectl(t, "create", "clusterrole", "pod-usage", "--verb=get,list,watch", "--resource=derivedpods.usage.sluice.dev")
	c.Kubectl(t, "create", "clusterrolebinding", "pod-usage", "--clusterrole=pod-usage", "--user=ann")
	root := "/apis/usage.sluice.dev/v1alpha1"
	if _, err := c.TryKubectl(t, "get", "--raw", root+"/derivednodes", "--as=ann"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("who may read pods reads nodes: %v", err)
	}
	within(t, func() error {
		out, err := c.TryKubectl(t, "get", "--raw", root+"/namespaces/"+ns+"/derivedpods?watch=true&timeoutSeconds=25", "--as=ann")
		if err == nil && (strings.Count(out, `"type":"MODIFIED"`) == 0 || !strings.Contains(out, `"name":"solo"`)) {
			err = fmt.Errorf("a watch of 25 s says\n%s", out)
		}
		return err
	})
	c.Kubectl(t, "create", "clusterrole", "raw-usage", "--verb=get,list", "--resource=rawpods.usage.sluice.dev")
	c.Kubectl(t, "create", "clusterrolebinding", "raw-usage", "--clusterrole=raw-usage", "--user=bob")
	for _, denied := range []string{"--as=ann /namespaces/" + ns + "/rawpods", "--as=bob /rawnodes", "--as=bob /derivedpods"} {
		as, path, _ := strings.Cut(denied, " ")
		if _, err := c.TryKubectl(t, "get", "--raw", root+path, as); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s reads %s: %v", as, path, err)
		}
	}
	raw := root + "/namespaces/" + ns + "/rawpods"
	within(t, func() error {
		out, err := c.TryKubectl(t, "get", "--raw", raw+"/solo?step=10&count=2&start=2026-01-01T00:00:00Z", "--as=bob")
		if err == nil && strings.Count(out, `"usage":{"cpu":"50m","memory":"48Mi"}`) != 2 {
			err = fmt.Errorf("the newest two points of the pod are %s, want 50m and 48Mi", out)
		}
		return err
	})
	if out := c.Kubectl(t, "get", "--raw", raw+"?labelSelector=app%3Dweb&count=1", "--as=bob"); strings.Count(out, `"name":"web","stats"`) != 4 || strings.Contains(out, "solo") {
		t.Errorf("the points of the pods of web are\n%s", out)
	}
	if out := c.Kubectl(t, "get", "--raw", root+"/rawnodes/loopback?step=60"); !strings.Contains(out, `"memory":"2Gi"`) {
		t.Errorf("the points of the node are\n%s", out)
	}
	if out, err := c.TryKubectl(t, "get", "--raw", raw+"?step=15", "--as=bob"); err == nil || !strings.Contains(err.Error(), "multiple of 10 seconds") {
		t.Errorf("a step of 15 s is answered with %s %v", out, err)
	}
	t.Log(c.Kubectl(t, "get", "rawpods,rawnodes", "-n", ns))
	for _, path := range []string{"/namespaces", "/namespaces/" + ns} {
		if out, err := c.TryKubectl(t, "get", "--raw", root+path); err == nil {
			t.Errorf("%s is answered with %s", path, out)
		}
	}
}

// asksForOne checks which version of metrics.k8s.io autoscalers ask for: v1beta1, in 1.37 too. Without v1 a new autoscaler has its metric.
func asksForOne(t *testing.T, c *agents, ns string) {
	t.Helper()
	c.Kubectl(t, "delete", "apiservice", "v1.metrics.k8s.io")
	c.Kubectl(t, "delete", "hpa", "-n", ns, "web")
	c.Kubectl(t, "autoscale", "deployment", "web", "-n", ns, "--name=later", "--cpu=1000%", "--max=4")
	within(t, func() error {
		out, err := c.TryKubectl(t, "get", "hpa", "-n", ns, "later", "-o", "jsonpath={.status.currentMetrics[0].resource.current.averageValue}")
		if err == nil && out == "" {
			err = errors.New("the autoscaler has no metric yet")
		}
		return err
	})
}

// An agent reports to one of two replicas, and both answer the same. Its replica is killed: the other one goes on answering, and the killed
// one has all again once it is back.
func TestUsageOfReplicas(t *testing.T) {
	t.Parallel()
	plane, both := replicasWithRights(t, "--api-resource-metrics",
		"--object-kinds", "namespaces,services,deployments.apps,statefulsets.apps,nodes")
	c := &agents{cluster: &cluster{ControlPlane: plane, sluice: both[0]}, authorities: hearAgents(t, both...), others: both[1:]}
	c.Apply(t, "sluice", usageRights, controlplane.ServiceAccount("sluice-agent"), usageReader)
	for _, one := range both {
		one.Start()
	}
	ns := c.Namespace(t, "usage")
	kubelet := newKubelet(t, c.cluster, ns)
	kubelet.use(0.05)
	c.near = c.agentOn(t, "loopback", "sluice-agent")
	c.near.Add("--kubelet-address", kubelet.address(), "--kubelet-insecure-tls", "--kubelet-interval", "2s")
	c.starts(t, c.near)
	for _, name := range []string{"one", "two"} {
		c.pod(t, ns, name, "default")
	}
	token := c.Token(t, "sluice", "reader")
	says := func(s *server.Server) (string, error) {
		var pods struct {
			Items []struct {
				Metadata   struct{ Name string }
				Timestamp  string
				Containers json.RawMessage
			}
		}
		status, body := asks(t, s, token, "/apis/metrics.k8s.io/v1beta1/namespaces/"+ns+"/pods")
		if status != http.StatusOK || json.Unmarshal([]byte(body), &pods) != nil {
			return "", fmt.Errorf("%d %s", status, body)
		}
		text := ""
		for _, pod := range pods.Items {
			text += fmt.Sprintln(pod.Metadata.Name, pod.Timestamp, string(pod.Containers))
		}
		if len(pods.Items) != 2 {
			return text, fmt.Errorf("%d pods, want 2: %s", len(pods.Items), text)
		}
		return text, nil
	}
	same := func() error {
		first, err := says(both[0])
		second, otherErr := says(both[1])
		if err = errors.Join(err, otherErr); err == nil && first != second {
			err = fmt.Errorf("one replica says\n%s\nthe other\n%s", first, second)
		}
		return err
	}
	within(t, same)
	raw := func() error { // a replica asks the one that the agent reports to
		for _, one := range both {
			status, body := asks(t, one, token, "/apis/usage.sluice.dev/v1alpha1/namespaces/"+ns+"/rawpods?count=1")
			if status != http.StatusOK || strings.Count(body, `"usage":{"cpu":"50m"`) != 2 {
				return fmt.Errorf("the points at %s: %d %s, want 50m of each pod", one.API, status, body)
			}
		}
		return nil
	}
	within(t, raw)
	for range 2 {
		dead, alive := both[0], both[1]
		if c.near.Hearer() == "sluice-1" {
			dead, alive = alive, dead
		}
		before, _ := says(alive)
		dead.Kill()
		within(t, func() error {
			now, err := says(alive)
			if err != nil {
				t.Errorf("while the agent moves: %v", err)
				return nil
			}
			if now == before {
				err = errors.New("the agent's new reports have not come")
			}
			return err
		})
		dead.Start()
		within(t, same)
		within(t, raw)
	}
}

// cgroups plays the cgroups of a node: the containers of a namespace's pods use what the test says.
type cgroups struct {
	*cluster
	root, namespace string
	cores           atomic.Uint64 // of each pod, in thousandths
}

// newCgroups writes the files until the test ends.
func newCgroups(t *testing.T, c *cluster, namespace string) *cgroups {
	g := &cgroups{cluster: c, root: t.TempDir(), namespace: namespace}
	g.write(t, "cgroup.controllers", "cpu memory\n")
	g.write(t, "kubepods/cgroup.controllers", "cpu memory\n")
	ended, ctx := make(chan struct{}), t.Context()
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		used, last := map[string]time.Duration{}, time.Now()
		for ctx.Err() == nil {
			now := time.Now()
			g.step(t, used, now.Sub(last))
			last = now
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return g
}

// step writes what was used within some time, and removes the folders of pods that have gone.
func (g *cgroups) step(t *testing.T, used map[string]time.Duration, passed time.Duration) {
	pods, err := g.Kubernetes.CoreV1().Pods(g.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return
	}
	more := passed * time.Duration(g.cores.Load()) / 1000
	live := map[string]bool{"": true}
	for _, pod := range pods.Items {
		if pod.Status.Phase != "Running" {
			continue
		}
		_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		folder := "kubepods/burstable/pod" + string(pod.UID) + "/" + id
		live[folder] = true
		if _, known := used[folder]; !known {
			g.write(t, folder+"/cgroup.events", "populated 1\n") // its time is the container's start
			used[folder] = 0
		} else {
			used[folder] += more
		}
		g.use(t, folder, used[folder])
	}
	used[""] += more
	g.use(t, "", used[""])
	for folder := range used {
		if !live[folder] {
			delete(used, folder)
			_ = os.RemoveAll(filepath.Join(g.root, folder))
		}
	}
}

func (g *cgroups) use(t *testing.T, folder string, cpu time.Duration) {
	g.write(t, folder+"/cpu.stat", fmt.Sprintf("usage_usec %d\n", cpu.Microseconds()+1))
	g.write(t, folder+"/memory.current", "60000000\n")
	g.write(t, folder+"/memory.stat", "anon 1\ninactive_file 9668352\n")
}

// write writes a file at once, as the kernel does.
func (g *cgroups) write(t *testing.T, path, text string) {
	path = filepath.Join(g.root, path)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path+".next", []byte(text), 0o644), os.Rename(path+".next", path))
	if err != nil {
		t.Error(err)
	}
}

// scalesOnCgroups has an autoscaler on cpu, with the annotation, of pods whose node's agent reads cgroups.
func scalesOnCgroups(t *testing.T, sync time.Duration) (*agents, *cgroups) {
	t.Helper()
	cfg := controlplane.DefaultConfig()
	cfg.HPASync = sync
	c := &agents{cluster: installWith(t, controlplane.New(t, cfg), "instant.yaml")}
	c.sluice.Stop()
	c.authorities = hearAgents(t, c.sluice)
	c.Apply(t, "sluice", controlplane.ServiceAccount("sluice-agent"), usageRights, usageReader)
	c.sluice.Add("--api-resource-metrics", "--object-kinds", "namespaces,services,deployments.apps,statefulsets.apps,nodes")
	c.sluice.Start()
	ns := c.Namespace(t, "cgroups")
	files := newCgroups(t, c.cluster, ns)
	files.cores.Store(50)
	c.near = c.agentOn(t, "loopback", "sluice-agent")
	c.near.Add("--cgroup-folder", files.root)
	c.starts(t, c.near)
	c.Apply(t, ns, strings.NewReplacer("metadata: {name: web}\nspec:\n  scale", "metadata: {name: web, annotations: {sluice.dev/instant: \"true\"}}\nspec:\n  scale",
		"  - type: KIND", "  - type: Pods\n    pods: {metric: {name: cpu}, target: {type: AverageValue, averageValue: 100m}}").Replace(usedWeb))
	c.AwaitPods(t, ns, "app=web", 1)
	token := c.Token(t, "sluice", "reader")
	within(t, func() error {
		a, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "web", metav1.GetOptions{})
		status, body := asks(t, c.sluice, token, "/apis/custom.metrics.k8s.io/v1beta2/namespaces/"+ns+"/pods/*/cpu")
		if err == nil && (status != http.StatusOK || a.Status.ObservedGeneration == nil) {
			err = fmt.Errorf("the controller has not looked yet, or there is no usage: %d %s", status, body)
		}
		return err
	})
	return c, files
}

// loads: docs/performance.md has the command and what it printed.
var loads = flag.Int("loads", 0, "number of rises of load in TestUsageLatency; 0: it is skipped")

// The time from the moment at which a pod begins to use more processor time to more replicas, as a client of the API server sees it in
// a watch. Loads rise at any moment between two syncs.
func TestUsageLatency(t *testing.T) {
	t.Parallel()
	if *loads == 0 {
		t.Skip("skipped: it measures; -loads 30 runs it")
	}
	const sync = 15 * time.Second
	c, files := scalesOnCgroups(t, sync)
	c.Kubectl(t, "patch", "hpa", "web", "-n", files.namespace, "--type=merge", "-p", `{"spec":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}}}}`)
	var took []time.Duration
	for range *loads {
		c.wantReplicas(t, files.namespace, "web", 1)
		time.Sleep(2*time.Second + rand.N(sync))
		watch, err := c.Kubernetes.AppsV1().Deployments(files.namespace).Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		began := time.Now()
		files.cores.Store(400)
		for event := range watch.ResultChan() {
			if d, is := event.Object.(*apps.Deployment); is && *d.Spec.Replicas > 1 {
				took = append(took, time.Since(began))
				break
			}
		}
		watch.Stop()
		files.cores.Store(50)
	}
	logLatencies(t, "more replicas", took)
}

// An agent reads the cgroups of its node, and knows the pods from the server: each second cpu and memory are new as metrics, and an
// autoscaler with the annotation moves at it, though its controller looks once in ten minutes. metrics.k8s.io and windows have
// points of ten seconds. A pod of a former one's name has none of its usage.
func TestUsageOfCgroups(t *testing.T) {
	t.Parallel()
	if !countsGenerations() {
		t.Skip("nudges in 1.36 have a test of their own")
	}
	c, files := scalesOnCgroups(t, 10*time.Minute)
	ns, token := files.namespace, c.Token(t, "sluice", "reader")
	files.cores.Store(400)
	began, last := time.Now(), int32(1)
	within(t, func() error {
		scale, err := c.Kubernetes.AppsV1().Deployments(ns).GetScale(t.Context(), "web", metav1.GetOptions{})
		if err == nil && scale.Spec.Replicas != last { // a second in which the load began is a part of it
			last = scale.Spec.Replicas
			t.Logf("%d replicas %v after the load", last, time.Since(began).Round(10*time.Millisecond))
		}
		if err == nil && scale.Spec.Replicas != 4 {
			err = fmt.Errorf("web has %d replicas, want 4", scale.Spec.Replicas)
		}
		return err
	})

	metric := func(path, want string) {
		t.Helper()
		within(t, func() error {
			status, body := asks(t, c.sluice, token, path)
			if status != http.StatusOK || !strings.Contains(body, want) {
				return fmt.Errorf("%s: %d %s, want %s", path, status, body, want)
			}
			return nil
		})
	}
	c.pod(t, ns, "solo", "default")
	custom := "/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + ns + "/pods/solo/"
	metric(custom+"memory", `"value":"50331648"`)
	metric("/apis/custom.metrics.k8s.io/v1beta2/nodes/loopback/memory:max:1d", `"value":"50331648"`)
	metric("/apis/metrics.k8s.io/v1beta1/namespaces/"+ns+"/pods/solo", `"memory":"48Mi"`)
	metric("/apis/usage.sluice.dev/v1alpha1/namespaces/"+ns+"/derivedpods/solo", `"1h":`)
	seen := map[string]bool{}
	within(t, func() error {
		_, body := asks(t, c.sluice, token, custom+"cpu")
		if _, after, ok := strings.Cut(body, `"timestamp":"`); ok {
			at, _, _ := strings.Cut(after, `"`)
			if seen[at] = true; len(seen) >= 6 {
				return nil
			}
		}
		return fmt.Errorf("the moments of cpu are %v", seen)
	})
	c.Kubectl(t, "delete", "pod", "-n", ns, "solo")
	files.cores.Store(20)
	within(t, func() error {
		left, err := filepath.Glob(filepath.Join(files.root, "kubepods/burstable/*/*"))
		if err == nil && len(left) != 4 {
			err = fmt.Errorf("there are %d cgroups, want 4", len(left))
		}
		return err
	})
	c.pod(t, ns, "solo", "default")
	within(t, func() error {
		status, body := asks(t, c.sluice, token, custom+"cpu:max:1h")
		if status != http.StatusOK {
			return fmt.Errorf("the next pod of the name has no usage yet: %s", body)
		}
		_, after, _ := strings.Cut(body, `"value":"`)
		value, _, _ := strings.Cut(after, `"`)
		if used, err := resource.ParseQuantity(value); err != nil || used.MilliValue() >= 200 {
			t.Errorf("the next pod of the name used %s (%v), want some 20m; the former one used 400m", body, err)
		}
		return nil
	})
}
