package cluster

import (
	"encoding/base64"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// cluster is a control plane with Sluice in it.
type cluster struct {
	*controlplane.ControlPlane
	sluice *server.Server
	// replicas are the servers that pods push to, if there are several; guarded by mu.
	replicas []*server.Server
	mu       sync.Mutex
	// agent is what pods push to; nil: the servers.
	agent *server.Agent
}

// install applies the chart and starts the server as its StatefulSet would. It ends with the test.
func install(t *testing.T) *cluster {
	t.Helper()
	return installInto(t, controlplane.Shared(t))
}

func installInto(t *testing.T, plane *controlplane.ControlPlane) *cluster {
	t.Helper()
	return installWith(t, plane, "values.yaml")
}

func installWith(t *testing.T, plane *controlplane.ControlPlane, values string) *cluster {
	t.Helper()
	return installObjects(t, plane, render(t, values))
}

// installObjects applies what the chart renders to. The flags go before those of the chart.
func installObjects(t *testing.T, plane *controlplane.ControlPlane, objects []*unstructured.Unstructured, own ...string) *cluster {
	t.Helper()
	plane.Kubectl(t, "create", "namespace", "sluice")
	toHere, others := split(objects)
	apply(t, plane, others)
	flags := append(mounted(t, objects), own...)
	sluice := server.InCluster(t, plane.ServiceAccountKubeconfig(t, "sluice", "sluice"), flags...)
	sluice.WithConsole()
	for _, object := range toHere {
		redirect(t, object, sluice.API)
	}
	apply(t, plane, toHere)
	sluice.Start()
	plane.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1beta1.custom.metrics.k8s.io",
		"apiservice/v1beta2.custom.metrics.k8s.io", "apiservice/v1beta1.external.metrics.k8s.io", "apiservice/v1alpha1.inspect.sluice.dev")
	return &cluster{ControlPlane: plane, sluice: sluice}
}

// split tells the objects that lead the API server to the pod from all others.
func split(objects []*unstructured.Unstructured) (leading, others []*unstructured.Unstructured) {
	for _, object := range objects {
		if object.GetKind() == "APIService" || object.GetKind() == "Service" && object.GetName() == "sluice-api" {
			leading = append(leading, object)
		} else {
			others = append(others, object)
		}
	}
	return leading, others
}

func apply(t *testing.T, plane *controlplane.ControlPlane, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		must(t, err)
		plane.Apply(t, "sluice", string(text))
	}
}

var pinnedHelm = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "-C", "../../tools", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm is a command of the pinned Helm, in the folder tools.
func helm(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := pinnedHelm()
	must(t, err)
	cmd := exec.Command(binary, args...)
	cmd.Dir = "../../tools"
	return cmd
}

// render is what "helm install" would send.
func render(t *testing.T, values string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	values, err := filepath.Abs(filepath.Join("testdata", values))
	must(t, err)
	args = append([]string{"template", "sluice", "../charts/sluice", "--namespace", "sluice", "--values", values}, args...)
	out, err := helm(t, args...).Output()
	if err != nil {
		stderr := ""
		if failed, ok := err.(*exec.ExitError); ok {
			stderr = string(failed.Stderr)
		}
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	return decode(t, string(out))
}

func decode(t *testing.T, manifests string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range strings.Split(manifests, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(object) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: object})
		}
	}
	return objects
}

// redirect makes the API server reach this machine where it would reach the pod: there is no
// network of Services.
func redirect(t *testing.T, object *unstructured.Unstructured, address string) {
	t.Helper()
	if object.GetKind() == "Service" {
		object.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
		return
	}
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	number, err := strconv.ParseInt(port, 10, 64)
	must(t, err)
	must(t, unstructured.SetNestedField(object.Object, number, "spec", "service", "port"))
}

// mounted puts into files what the chart mounts, and returns the flags that name them. Addresses
// and the data folder are given by flags, too: they go before the file.
func mounted(t *testing.T, objects []*unstructured.Unstructured) (flags []string) {
	t.Helper()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "ConfigMap":
			if text, found, _ := unstructured.NestedString(object.Object, "data", "sluice.yaml"); found {
				flags = append(flags, "--config", write("sluice.yaml", text))
			}
		case "Secret":
			if object.GetName() != "sluice-tls" { // that of replicas names hosts that this machine cannot resolve
				continue
			}
			for flag, key := range map[string]string{"--api-cert-file": "tls.crt", "--api-key-file": "tls.key"} {
				coded, _, _ := unstructured.NestedString(object.Object, "data", key)
				text, err := base64.StdEncoding.DecodeString(coded)
				must(t, err)
				flags = append(flags, flag, write(key, string(text)))
			}
		}
	}
	return flags
}
