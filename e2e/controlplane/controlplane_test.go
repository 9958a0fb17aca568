package controlplane

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-metrics/sluice/e2e/binaries"
)

func TestMain(m *testing.M) { Main(m) }

const shop = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: shop}]
`

func TestDeploymentBecomesReady(t *testing.T) {
	start := time.Now()
	c := Shared(t)
	t.Logf("control plane there after %s", time.Since(start).Round(time.Millisecond))
	start = time.Now()

	ns := c.Namespace(t, "ready")
	c.Apply(t, ns, shop)
	pods := c.AwaitPods(t, ns, "app=shop", 3)
	t.Logf("pods ready after %s", time.Since(start).Round(time.Millisecond))

	seen := map[string]bool{}
	for _, pod := range pods {
		seen[pod.Status.PodIP] = true
		if id := pod.Status.ContainerStatuses[0].ContainerID; len(id) != len("containerd://")+64 {
			t.Errorf("container ID %q: want 64 digits", id)
		}
		if got := c.Kubelet.Address(t, ns, pod.Name).String(); got != pod.Status.PodIP || !strings.HasPrefix(got, "127.0.") {
			t.Errorf("the kubelet gave %s, the API says %s", got, pod.Status.PodIP)
		}
	}
	if len(seen) != 3 {
		t.Errorf("addresses %v: want three", seen)
	}
	if out := c.Kubectl(t, "get", "pods", "-n", ns); strings.Count(out, "1/1     Running") != 3 {
		t.Errorf("kubectl get pods says\n%s\nwant three ready", out)
	}

	c.Kubectl(t, "scale", "-n", ns, "deployment/shop", "--replicas=1")
	c.AwaitPods(t, ns, "app=shop", 1)
}

// Clients take a server without a proper version for one that can do nothing.
func TestVersions(t *testing.T) {
	c := Shared(t)
	server, err := c.Kubernetes.Discovery().ServerVersion()
	must(t, err)
	if server.GitVersion != binaries.KubernetesVersion || !strings.HasPrefix(server.GitVersion, "v"+server.Major+"."+server.Minor+".") {
		t.Errorf("the API server is %s (%s.%s), want %s", server.GitVersion, server.Major, server.Minor, binaries.KubernetesVersion)
	}
	var versions struct{ ClientVersion, ServerVersion struct{ GitVersion string } }
	must(t, json.Unmarshal([]byte(c.Kubectl(t, "version", "-o", "json")), &versions))
	if versions.ClientVersion != versions.ServerVersion || versions.ClientVersion.GitVersion != binaries.KubernetesVersion {
		t.Errorf("kubectl says %+v, want %s twice", versions, binaries.KubernetesVersion)
	}
}

func TestUsersHaveTheirRolesOnly(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "users")
	if _, err := c.As(t, "jane").Kubernetes.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("jane lists pods: %v, want that it is forbidden", err)
	}
	c.Apply(t, ns, ServiceAccount("reader"),
		Role("pods", User("jane")+", "+Account(ns, "reader"), `{apiGroups: [""], resources: [pods], verbs: [list]}`))
	if _, err := c.As(t, "jane").Kubernetes.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("jane lists pods with a role: %v", err)
	}
	reader, err := clientsOfKubeconfig(c.ServiceAccountKubeconfig(t, ns, "reader"))
	must(t, err)
	if _, err := reader.Get(t.Context(), "/api/v1/namespaces/"+ns+"/pods"); err != nil {
		t.Errorf("the service account lists pods with a role: %v", err)
	}
	if _, err := reader.Get(t.Context(), "/api/v1/namespaces/"+ns+"/secrets"); !apierrors.IsForbidden(err) {
		t.Errorf("the service account lists secrets: %v, want that it is forbidden", err)
	}
}

// The autoscaler looks, finds no metrics API, and says so: it runs, as the service account that
// RBAC knows.
func TestAutoscalerRuns(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "hpa")
	c.Apply(t, ns, shop, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  maxReplicas: 4
  metrics:
  - type: Pods
    pods: {metric: {name: absent}, target: {type: AverageValue, averageValue: "1"}}
`)
	var last []autoscaling.HorizontalPodAutoscalerCondition
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		hpa, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "shop", metav1.GetOptions{})
		must(t, err)
		last = hpa.Status.Conditions
		for _, condition := range last {
			if condition.Type == autoscaling.ScalingActive && condition.Reason == "FailedGetPodsMetric" {
				if _, err := c.Kubernetes.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), "horizontal-pod-autoscaler", metav1.GetOptions{}); err != nil {
					t.Errorf("the autoscaler's service account: %v", err) // made when a controller first uses its own
				}
				return
			}
		}
	}
	t.Errorf("conditions %+v: want ScalingActive=False with reason FailedGetPodsMetric", last)
}

func TestDeletedNamespaceGoes(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "gone")
	c.Apply(t, ns, shop)
	c.AwaitPods(t, ns, "app=shop", 3)
	start := time.Now()
	c.Kubectl(t, "delete", "namespace", ns, "--timeout=5m")
	t.Logf("namespace gone after %s", time.Since(start).Round(time.Millisecond))
	if _, err := c.Kubernetes.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace afterwards: %v, want that it is not found", err)
	}
}

// The logs that a failed test shows exist.
func TestLogsAreKept(t *testing.T) {
	c := Shared(t)
	logs := c.logTails()
	for _, want := range []string{"--- etcd.log:\n", "--- kube-apiserver.log:\n", "--- kube-controller-manager.log:\n"} {
		if _, after, ok := strings.Cut(logs, want); !ok || strings.HasPrefix(after, "---") || after == "" {
			t.Errorf("no text after %q in\n%s", want, logs)
		}
	}
}

// A start that fails says what was waited for and what the processes said, and leaves nothing.
func TestStartThatTakesTooLong(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := DefaultConfig()
	cfg.StartTimeout = 100 * time.Millisecond
	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "timeout after 100ms; waited until kube-apiserver is ready") || !strings.Contains(err.Error(), "--- kube-apiserver.log:") {
		t.Errorf("error is %v, want what was not ready, and the logs", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}
