package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/certificate"
	"github.com/sluice-metrics/sluice/e2e/controlplane"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

const externalAPIService = "v1beta1.external.metrics.k8s.io"

// TestOneOwnerThroughout follows docs/other-providers.md to the letter, with the commands and values that stand there:
// Sluice comes into a cluster with KEDA, takes the group, gives it back and is uninstalled. At each moment the one
// APIService leads to a Service with the authority of that Service's certificate.
func TestOneOwnerThroughout(t *testing.T) {
	t.Parallel()
	i := installation{controlplane.New(t, controlplane.DefaultConfig())}
	page := sections(t, "../../docs/other-providers.md")
	w := i.asWritten(t, page["Install"])
	w.run(t, "helm install keda kedacore/keda -n keda --create-namespace")
	authority, err := certificate.New(t.TempDir(), "ca")
	must(t, err)
	text, err := os.ReadFile(authority.Path)
	must(t, err)
	ofKEDA := base64.StdEncoding.EncodeToString(text)
	i.Kubectl(t, "create", "secret", "generic", "kedaorg-certs", "-n", "keda", "--from-file=ca.crt="+authority.Path, "--from-literal=tls.key=secret")
	i.Kubectl(t, "patch", "apiservice", externalAPIService, "--type=merge", "-p", `{"spec":{"caBundle":"`+ofKEDA+`"}}`) // as its operator does
	const early = "helm install sluice sluice/sluice -n sluice --create-namespace -f route.yaml --set externalMetrics.register=true"
	if _, err := w.try(t, early); err == nil || !strings.Contains(err.Error(), "--enable-apiservice-patching=false") {
		t.Errorf("while KEDA's operator patches the APIService: %v", err)
	}
	owners := i.followOwner(t)

	w.run(t, commands(page["Install"])...)
	owners.is(t, "keda", ofKEDA)
	if keys := i.Kubectl(t, "get", "configmap", "sluice-routes", "-n", "sluice", "-o", "jsonpath={.data}"); !strings.Contains(keys, "BEGIN CERTIFICATE") || strings.Contains(keys, "secret") {
		t.Errorf("the authority is not there, or the key is: %s", keys)
	}
	ofSluice := i.Kubectl(t, "get", "secret", "sluice-tls", "-n", "sluice", "-o", `jsonpath={.data.ca\.crt}`)
	for range 2 { // and once more, as after an upgrade of KEDA
		w.run(t, strings.Join(commands(page["Take the group"])[:3], "\n"))
		owners.is(t, "sluice", ofSluice)
	}
	w.run(t, strings.Join(commands(page["Give it back"]), "\n"))
	owners.is(t, "keda", ofKEDA)
	w.run(t, "helm upgrade keda kedacore/keda -n keda --reuse-values --set commonLabels.a=b")
	owners.is(t, "keda", ofKEDA)
	owners.check(t, map[string]string{"keda": ofKEDA, "sluice": ofSluice})
}

// sections are the parts of a page, by their headings.
func sections(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	all := map[string]string{}
	for _, part := range strings.Split(string(text), "\n#")[1:] {
		heading, content, _ := strings.Cut(part, "\n")
		all[strings.TrimLeft(heading, "# ")] = content
	}
	return all
}

// commands are the indented lines of a section, outside of fences.
func commands(section string) (lines []string) {
	fenced := false
	for _, line := range strings.Split(section, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if command, is := strings.CutPrefix(line, "    "); is && !fenced {
			lines = append(lines, command)
		}
	}
	return lines
}

// written runs commands as they stand on a page, with the charts of this repository.
type written struct {
	installation
	prelude  string
	replaced *strings.Replacer
}

func (i installation) asWritten(t *testing.T, section string) *written {
	t.Helper()
	binary, err := pinnedHelm()
	must(t, err)
	home := t.TempDir()
	_, values, _ := strings.Cut(section, "```yaml\n")
	values, _, _ = strings.Cut(values, "```")
	file := filepath.Join(home, "route.yaml")
	must(t, os.WriteFile(file, []byte(values), 0o600))
	stand, err := filepath.Abs("testdata/keda")
	must(t, err)
	chart, err := filepath.Abs("../../charts/sluice")
	must(t, err)
	return &written{i, fmt.Sprintf("set -e\nexport KUBECONFIG=%s HELM_CACHE_HOME=%[2]s HELM_CONFIG_HOME=%[2]s HELM_DATA_HOME=%[2]s\nhelm() { %[3]s \"$@\"; }\n",
		i.Kubeconfig, home, binary), strings.NewReplacer("kedacore/keda", stand, "sluice/sluice", chart, "route.yaml", file)}
}

func (w *written) try(t *testing.T, line string) (string, error) {
	t.Helper()
	return w.TryShell(t, w.prelude+w.replaced.Replace(line))
}

func (w *written) run(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if said, err := w.try(t, line); err != nil {
			t.Fatalf("%s\n%v\n%s", line, err, said)
		}
	}
}

// owner is what an APIService led to at a moment; empty: it was deleted.
type owner struct{ namespace, caBundle string }

// owners are all that an APIService led to since a moment.
type owners struct {
	installation
	events watch.Interface
}

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

func (i installation) followOwner(t *testing.T) *owners {
	t.Helper()
	events, err := i.Dynamic.Resource(apiServices).Watch(context.Background(), metav1.ListOptions{FieldSelector: "metadata.name=" + externalAPIService})
	must(t, err)
	t.Cleanup(events.Stop)
	return &owners{i, events}
}

func ownerOf(object *unstructured.Unstructured) owner {
	namespace, _, _ := unstructured.NestedString(object.Object, "spec", "service", "namespace")
	caBundle, _, _ := unstructured.NestedString(object.Object, "spec", "caBundle")
	return owner{namespace, caBundle}
}

// is checks the present owner.
func (o *owners) is(t *testing.T, namespace, caBundle string) {
	t.Helper()
	object, err := o.Dynamic.Resource(apiServices).Get(t.Context(), externalAPIService, metav1.GetOptions{})
	must(t, err)
	if is := ownerOf(object); is != (owner{namespace, caBundle}) {
		t.Errorf("external.metrics.k8s.io leads to %+v, want %s", is, namespace)
	}
}

// check looks at every state that there was, up to the present one.
func (o *owners) check(t *testing.T, authorities map[string]string) {
	t.Helper()
	last := o.Kubectl(t, "get", "apiservice", externalAPIService, "-o", "jsonpath={.metadata.resourceVersion}")
	for n := 0; ; n++ {
		event, open := <-o.events.ResultChan()
		object, is := event.Object.(*unstructured.Unstructured)
		if !open || !is {
			t.Fatalf("the watch ended after %d events: %v", n, event)
		}
		if was := ownerOf(object); event.Type == watch.Deleted || authorities[was.namespace] != was.caBundle || was.caBundle == "" {
			t.Errorf("%s: it led to %s with another authority, or to nobody", event.Type, was.namespace)
		}
		if object.GetResourceVersion() == last {
			if n < 3 {
				t.Errorf("%d states: the group did not change hands", n)
			}
			return
		}
	}
}
