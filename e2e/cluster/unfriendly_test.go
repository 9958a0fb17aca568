package cluster

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// othersKinds are the kinds of other products that the chart makes objects of; their schemas are
// checked in tools/chart.
var othersKinds = []struct{ group, version, plural, kind string }{
	{"monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"},
	{"monitoring.coreos.com", "v1", "podmonitors", "PodMonitor"},
	{"monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"},
	{"gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute"},
}

// defineOthersKinds makes the API server take objects of these kinds.
func defineOthersKinds(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	for _, one := range othersKinds {
		name := one.plural + "." + one.group
		plane.Apply(t, "", fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %s
  annotations: {api-approved.kubernetes.io: "unapproved, a test"}
spec:
  group: %s
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: %s}
  versions:
  - name: %s
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, name, one.group, one.plural, strings.ToLower(one.kind), one.kind, one.version))
		plane.Kubectl(t, "wait", "--for=condition=Established", "--timeout=5m", "crd/"+name)
	}
}

// TestInstallsIntoAnUnfriendlyCluster: Helm installs the chart with values that platforms need, the
// pod runs, and Sluice with that configuration answers. custom.metrics.k8s.io stays another
// product's, and is served to whoever asks Sluice itself.
func TestInstallsIntoAnUnfriendlyCluster(t *testing.T) {
	t.Parallel()
	i := installation{controlplane.New(t, controlplane.DefaultConfig())}
	defineOthersKinds(t, i.ControlPlane)
	i.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: metrics, labels: {pod-security.kubernetes.io/enforce: privileged}}\n", othersAPI)
	values := []string{"--namespace", "platform", "--values", "../e2e/cluster/testdata/unfriendly.yaml"}

	said, err := i.helm(t, append([]string{"install", "sluice", "../charts/sluice", "--create-namespace", "--set", "customMetrics.register=true"}, values...)...)
	if err == nil || !strings.Contains(said, "customMetrics.register=false") {
		t.Errorf("%v; want a refusal that names the way out:\n%s", err, said)
	}
	said, err = i.helm(t, append([]string{"install", "sluice", "../charts/sluice", "--create-namespace"}, values...)...)
	if err != nil {
		t.Fatalf("helm install: %v\n%s", err, said)
	}
	pod := i.AwaitPods(t, "metrics", "app.kubernetes.io/instance=sluice", 1)[0]
	isAsAsked(t, &pod)

	sluice := i.runs(t, &pod)
	i.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1beta1.external.metrics.k8s.io")
	if owner := i.Kubectl(t, "get", "apiservice", "v1beta1.custom.metrics.k8s.io", "-o", "jsonpath={.spec.service.name}"); owner != "prometheus-adapter" {
		t.Errorf("custom.metrics.k8s.io belongs to %s now", owner)
	}
	if _, err := i.Get(t.Context(), external); err != nil {
		t.Errorf("through the API server: %v", err)
	}
	token := i.Token(t, "kube-system", "horizontal-pod-autoscaler")
	if status, body := asks(t, sluice, token, "/apis/custom.metrics.k8s.io/v1beta2"); status != 200 || !strings.Contains(body, "APIResourceList") {
		t.Errorf("Sluice itself answers about custom metrics: %d %s", status, body)
	}

	for set, says := range map[string]string{
		"persistence.existingClaim=":     "delete statefulset sluice --cascade=orphan",
		"networkPolicy.enabled=true":     "hostNetwork",
		"customMetrics.register=true":    "belongs to Service monitoring/prometheus-adapter",
		"extraArgs={--ops-address=:1}":   "set operations.port",
		"replicas=2":                     "each replica needs a volume of its own",
		"serviceMonitor.enabled=true":    "scraped twice",
		"ingress.hosts=null":             "every host",
		"service.ingest.type=ClusterIP":  "NodePort or LoadBalancer",
		"api.port=10250":                 "kubelet",
		"httpRoute.parentRefs=null":      "Gateway",
		"dnsPolicy=None":                 "nameservers",
		"service.ingest.clusterIP=None":  "headless",
		"externalMetrics.register=maybe": "want boolean",
	} {
		said, err := i.helm(t, append([]string{"upgrade", "sluice", "../charts/sluice", "--set", set}, values...)...)
		if err == nil || !strings.Contains(said, says) {
			t.Errorf("helm upgrade --set %s: %v; want a refusal that says %q:\n%s", set, err, says, said)
		}
	}
	if said, err := i.helm(t, "uninstall", "sluice", "--namespace", "platform"); err != nil {
		t.Errorf("helm uninstall: %v\n%s", err, said)
	}
	if left := i.Kubectl(t, "get", "apiservices,clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/instance=sluice", "-o", "name"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// TestInstallsWithEverythingOn: the file of values that has everything, in a namespace that
// enforces PodSecurity restricted.
func TestInstallsWithEverythingOn(t *testing.T) {
	t.Parallel()
	i := installation{controlplane.New(t, controlplane.DefaultConfig())}
	defineOthersKinds(t, i.ControlPlane)
	i.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: sluice, labels: {pod-security.kubernetes.io/enforce: restricted}}\n")
	said, err := i.helm(t, "install", "sluice", "../charts/sluice", "--namespace", "sluice", "--values", "../charts/sluice/ci/everything-on-values.yaml")
	if err != nil {
		t.Fatalf("helm install: %v\n%s", err, said)
	}
	pod := i.AwaitPods(t, "sluice", "app.kubernetes.io/instance=sluice", 1)[0]
	if len(pod.Spec.InitContainers) != 1 || len(pod.Spec.Containers) != 2 || pod.Spec.DNSPolicy != core.DNSNone {
		t.Errorf("%d init containers, %d containers, DNS policy %s", len(pod.Spec.InitContainers), len(pod.Spec.Containers), pod.Spec.DNSPolicy)
	}
}

// othersAPI is the custom metrics API of another product.
var othersAPI = controlplane.APIService("v1beta1.custom.metrics.k8s.io", "monitoring", "prometheus-adapter", "443")

// isAsAsked compares the pod that the API server admitted with the values.
func isAsAsked(t *testing.T, pod *core.Pod) {
	t.Helper()
	spec, main := pod.Spec, pod.Spec.Containers[0]
	if !spec.HostNetwork || spec.DNSPolicy != core.DNSClusterFirstWithHostNet || main.Image != "mirror.example/proxy/example/sluice:1" {
		t.Errorf("host network %v, DNS policy %s, image %s", spec.HostNetwork, spec.DNSPolicy, main.Image)
	}
	for _, port := range main.Ports {
		if want := map[string]int32{"api": 8443, "operations": 18080}[port.Name]; want != 0 && (port.ContainerPort != want || port.HostPort != want) {
			t.Errorf("port %s is %d, of the node %d: want %d", port.Name, port.ContainerPort, port.HostPort, want)
		}
	}
	if text := main.Env[1].Value; text != `a: b # {{ c }} "d"` {
		t.Errorf("the environment has %q", text)
	}
	got := []int{len(spec.InitContainers), len(spec.Containers), len(spec.TopologySpreadConstraints), len(spec.ImagePullSecrets)}
	if want := []int{1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("init containers, containers, spread constraints, pull secrets: %v, want %v", got, want)
	}
	if !slices.ContainsFunc(spec.Volumes, func(v core.Volume) bool {
		return v.Name == "data" && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "old-data"
	}) {
		t.Error("the pod does not mount the existing claim")
	}
}

// runs starts Sluice as the pod would: with the configuration and the certificate that Helm
// installed, its arguments and the rights of its service account. The API server finds it at
// another port, for there is no network of nodes.
func (i installation) runs(t *testing.T, pod *core.Pod) *server.Server {
	t.Helper()
	var installed []*unstructured.Unstructured
	for resource, name := range map[string]string{"configmaps": "sluice", "secrets": "sluice-tls"} {
		object, err := i.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(pod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		installed = append(installed, object)
	}
	flags := append(mounted(t, installed), pod.Spec.Containers[0].Args[2:]...)
	sluice := server.InCluster(t, i.ServiceAccountKubeconfig(t, pod.Namespace, pod.Spec.ServiceAccountName), flags...)
	i.Kubectl(t, "delete", "service", "sluice-api", "-n", pod.Namespace)
	leading := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "sluice-api", "namespace": pod.Namespace}}}
	redirect(t, leading, sluice.API)
	apply(t, i.ControlPlane, []*unstructured.Unstructured{leading})
	_, port, _ := strings.Cut(sluice.API, ":")
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"service": map[string]any{"port": json.Number(port)}}})
	must(t, err)
	i.Kubectl(t, "patch", "apiservice", "v1beta1.external.metrics.k8s.io", "--type=merge", "-p", string(patch))
	sluice.Start()
	return sluice
}

// asks reads from Sluice itself, with a token, as a client does that knows its Service.
func asks(t *testing.T, sluice *server.Server, token, path string) (status int, body string) {
	t.Helper()
	// the certificate names the Service, and the address is this machine's
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+sluice.API+path, nil)
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}
