package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	custom   = "/apis/custom.metrics.k8s.io/v1beta2"
	external = "/apis/external.metrics.k8s.io/v1beta1"
)

// patience ends what will never hold. It says nothing about speed: benchmarks measure that.
const patience = server.Patience

// within polls until it holds, and fails with what is wrong then.
func within(t *testing.T, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("after %s: %v", patience, err)
}

// values asks for a custom metric and returns what each object has.
func (c *cluster) values(t *testing.T, path string) (map[string]float64, error) {
	t.Helper()
	body, err := c.Get(t.Context(), custom+path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			DescribedObject struct{ Name string }
			Value           resource.Quantity
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for _, item := range list.Items {
		if _, twice := all[item.DescribedObject.Name]; twice {
			t.Errorf("%s holds %s twice", path, item.DescribedObject.Name)
		}
		all[item.DescribedObject.Name] = item.Value.AsApproximateFloat64()
	}
	return all, nil
}

// wantValues waits until a custom metric reads as wanted.
func (c *cluster) wantValues(t *testing.T, path string, want map[string]float64) {
	t.Helper()
	within(t, func() error {
		got, err := c.values(t, path)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("%s: %v, want %v", path, got, want)
		}
		return err
	})
}

// example is a manifest of the documentation, for another namespace than "shop".
func example(t *testing.T, name, namespace string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	must(t, err)
	manifest := strings.ReplaceAll(string(text), "namespace: shop", "namespace: "+namespace)
	return strings.ReplaceAll(manifest, "name: shop}", "name: "+namespace+"}")
}

// deployment is one of a container that does nothing.
func deployment(name string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: shop/main:1}]}
`, name)
}

// wantReplicas waits until the autoscaler has set a Deployment to so many.
func (c *cluster) wantReplicas(t *testing.T, namespace, name string, want int32) {
	t.Helper()
	within(t, func() error {
		got, err := c.Kubernetes.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if *got.Spec.Replicas != want {
			return fmt.Errorf("%s has %d replicas, want %d\n%s", name, *got.Spec.Replicas, want, c.Kubectl(t, "describe", "hpa", "-n", namespace, name))
		}
		return nil
	})
}

// steady watches that a Deployment stays at so many replicas.
func (c *cluster) steady(t *testing.T, namespace, name string, want int32, how time.Duration) {
	t.Helper()
	for end := time.Now().Add(how); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got, err := c.Kubernetes.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if *got.Spec.Replicas != want {
			t.Fatalf("%s has %d replicas, want it to stay at %d\n%s", name, *got.Spec.Replicas, want, c.Kubectl(t, "describe", "hpa", "-n", namespace, name))
		}
	}
}

// noWarnings fails where an autoscaler complained about what it reads, now or since it scaled for the first
// time. Before, it may have had no value: a controller since 1.37 asks as soon as an autoscaler is created.
func (c *cluster) noWarnings(t *testing.T, namespace, name string) {
	t.Helper()
	c.noWarningsNow(t, namespace, name)
	events, err := c.Kubernetes.CoreV1().Events(namespace).List(t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.kind=HorizontalPodAutoscaler,involvedObject.name=" + name})
	must(t, err)
	var scaled *metav1.Time
	for _, e := range events.Items {
		if e.Reason == "SuccessfulRescale" && (scaled == nil || e.FirstTimestamp.Before(scaled)) {
			scaled = &e.FirstTimestamp
		}
	}
	if scaled == nil {
		t.Fatalf("no Event says that autoscaler %s scaled: %+v", name, events.Items)
	}
	for _, e := range events.Items {
		if e.Type == core.EventTypeWarning && scaled.Before(&e.LastTimestamp) {
			t.Errorf("autoscaler %s, after it scaled: %s: %s", name, e.Reason, e.Message)
		}
	}
}

// noWarningsNow is noWarnings for an autoscaler that had a reason to complain before.
func (c *cluster) noWarningsNow(t *testing.T, namespace, name string) {
	t.Helper()
	hpa, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	for _, condition := range hpa.Status.Conditions {
		if condition.Type == autoscaling.ScalingActive && condition.Status != core.ConditionTrue {
			t.Errorf("autoscaler %s: %s: %s", name, condition.Reason, condition.Message)
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
