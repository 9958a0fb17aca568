package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

// ofKEDAsAdapter is the registration of external.metrics.k8s.io as KEDA's chart makes it.
var ofKEDAsAdapter = controlplane.APIService("v1beta1.external.metrics.k8s.io",
	"keda", "keda-operator-metrics-apiserver", "443")

// TestInstallsBesideKEDA: Helm installs the chart into a cluster with KEDA's own definitions, and
// leaves external.metrics.k8s.io to KEDA. The API server takes the examples strictly, and an
// upgrade changes no certificate.
func TestInstallsBesideKEDA(t *testing.T) {
	t.Parallel()
	i := installation{controlplane.New(t, controlplane.DefaultConfig())}
	definitions, err := filepath.Glob("../../tools/chart/testdata/keda/*.yaml")
	if err != nil || len(definitions) != 3 {
		t.Fatal(definitions, err)
	}
	for _, file := range definitions {
		i.Kubectl(t, "apply", "--server-side", "-f", file)
	}
	i.Kubectl(t, "wait", "--for=condition=Established", "--timeout=5m", "crd", "--all")
	i.Kubectl(t, "create", "namespace", "keda")
	i.Kubectl(t, "create", "namespace", "shop")
	i.Apply(t, "", ofKEDAsAdapter)

	beside := []string{"sluice", "../charts/sluice", "--namespace", "sluice", "--create-namespace", "--set", "keda.enabled=true"}
	said, err := i.helm(t, append([]string{"install"}, beside...)...)
	if err == nil || !strings.Contains(said, "externalMetrics.register=false") {
		t.Errorf("%v; want a refusal that names the way out:\n%s", err, said)
	}
	beside = append(beside, "--set", "externalMetrics.register=false")
	if said, err := i.helm(t, append([]string{"install"}, beside...)...); err != nil {
		t.Fatalf("helm install: %v\n%s", err, said)
	}
	i.AwaitPods(t, "sluice", "app.kubernetes.io/instance=sluice", 1)
	if owner := i.Kubectl(t, "get", "apiservice", "v1beta1.external.metrics.k8s.io", "-o", "jsonpath={.spec.service.name}"); owner != "keda-operator-metrics-apiserver" {
		t.Errorf("external.metrics.k8s.io belongs to %s now", owner)
	}
	if got := i.Kubectl(t, "get", "service", "sluice-keda", "-n", "sluice", "-o", "jsonpath={.spec.ports[0].appProtocol} {.spec.ports[0].port}"); got != "grpc 9095" {
		t.Errorf("the Service has %s", got)
	}
	authentication := i.Kubectl(t, "get", "clustertriggerauthentication", "sluice", "-o", "jsonpath={.spec.secretTargetRef[*].name}")
	if authentication != "sluice-keda-client sluice-keda-client sluice-keda-client" {
		t.Errorf("the ClusterTriggerAuthentication names %s", authentication)
	}

	const key = "jsonpath={.data.tls\\.key}"
	ends := func() (all []string) {
		for namespace, secret := range map[string]string{"sluice": "sluice-keda-tls", "keda": "sluice-keda-client"} {
			all = append(all, namespace+" "+i.Kubectl(t, "get", "secret", secret, "-n", namespace, "-o", key))
		}
		return all
	}
	before := strings.Join(slices.Sorted(slices.Values(ends())), "\n")
	if said, err := i.helm(t, append([]string{"upgrade"}, append(beside, "--set", "commonLabels.team=a")...)...); err != nil {
		t.Fatalf("helm upgrade: %v\n%s", err, said)
	}
	if after := strings.Join(slices.Sorted(slices.Values(ends())), "\n"); after != before || len(before) < 200 {
		t.Errorf("an upgrade changed the certificates of KEDA's port")
	}

	examples, err := filepath.Glob("../../examples/keda-*.yaml")
	if err != nil || len(examples) < 4 {
		t.Fatal(examples, err)
	}
	for _, file := range examples {
		i.Kubectl(t, "create", "--validate=strict", "-f", file)
	}
	text, err := os.ReadFile(examples[0])
	must(t, err)
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte(strings.Replace(string(text), "  triggers:", "  trigers: []\n  triggers:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := i.TryKubectl(t, "create", "--validate=strict", "-f", wrong); err == nil || !strings.Contains(err.Error(), `unknown field "spec.trigers"`) {
		t.Errorf("a field that KEDA doesn't know: %v", err)
	}
}
