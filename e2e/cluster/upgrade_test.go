package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

// installation is a release of the chart, named steps, in a namespace of that name. Its pods run no
// server: the tests are about what Helm and Kubernetes make of the chart.
type installation struct {
	*controlplane.ControlPlane
}

const (
	steps     = "steps"
	ofRelease = "app.kubernetes.io/instance=" + steps
)

// helm runs the pinned Helm against the control plane.
func (i installation) helm(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	cmd := helm(t, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+i.Kubeconfig, "HELM_NAMESPACE="+steps,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// upgrade is a step as the chart's README has it.
func (i installation) upgrade(t *testing.T, set string) {
	t.Helper()
	if said, err := i.helm(t, "upgrade", steps, "../charts/sluice", "--reset-then-reuse-values", "--set", set); err != nil {
		t.Fatalf("helm upgrade --set %s: %v\n%s", set, err, said)
	}
}

// refuses checks that the chart refuses an upgrade and says what to do instead.
func (i installation) refuses(t *testing.T, set, says string) {
	t.Helper()
	if said, err := i.helm(t, "upgrade", steps, "../charts/sluice", "--reset-then-reuse-values", "--set", set); err == nil || !strings.Contains(said, says) {
		t.Errorf("helm upgrade --set %s: %v; want a refusal that says %q:\n%s", set, err, says, said)
	}
}

// settled waits until the StatefulSet has nothing left to do, and returns its pods.
func (i installation) settled(t *testing.T, replicas int32) []core.Pod {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		set := i.set(t)
		if s := set.Status; s.ObservedGeneration == set.Generation && s.Replicas == replicas &&
			s.ReadyReplicas == replicas && s.UpdatedReplicas == replicas && s.CurrentRevision == s.UpdateRevision {
			return i.AwaitPods(t, steps, ofRelease, int(replicas))
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the StatefulSet is not settled: %+v", set.Status)
		}
	}
}

func (i installation) set(t *testing.T) *apps.StatefulSet {
	t.Helper()
	set, err := i.Kubernetes.AppsV1().StatefulSets(steps).Get(t.Context(), "steps-sluice", metav1.GetOptions{})
	must(t, err)
	return set
}

func sharesItsState(pod core.Pod) bool {
	return slices.Contains(pod.Spec.Containers[0].Args, "--replica-name=$(POD_NAME)")
}

// TestOneReplicaToTwoAndBack follows the chart's README: Helm and the API server accept every step,
// the first replica restarts when its configuration changes and stays up when the second one joins
// or leaves, and the volume of the second one outlives it. The steps cannot be skipped.
func TestOneReplicaToTwoAndBack(t *testing.T) {
	t.Parallel()
	i := installation{controlplane.New(t, controlplane.DefaultConfig())}
	if said, err := i.helm(t, "install", steps, "../charts/sluice", "--create-namespace"); err != nil {
		t.Fatalf("helm install: %v\n%s", err, said)
	}
	first := i.settled(t, 1)[0]
	if sharesItsState(first) {
		t.Fatal("one replica shares its state")
	}

	i.refuses(t, "replicas=2", "replication.enabled=true")
	i.upgrade(t, "replication.enabled=true")
	shares := i.settled(t, 1)[0]
	if shares.UID == first.UID || !sharesItsState(shares) {
		t.Fatalf("after the first step: restarted %v, shares its state %v", shares.UID != first.UID, sharesItsState(shares))
	}
	i.upgrade(t, "replicas=2")
	two := i.settled(t, 2)
	if two[0].UID != shares.UID || !sharesItsState(two[1]) {
		t.Errorf("after the second step: the first restarted %v, the second shares its state %v", two[0].UID != shares.UID, sharesItsState(two[1]))
	}

	i.refuses(t, "replicas=1,replication.enabled=false", "2 replicas are running")
	i.upgrade(t, "replicas=1,replication.enabled=true")
	if left := i.settled(t, 1)[0]; left.UID != shares.UID {
		t.Error("the first restarted when the second left")
	}
	i.upgrade(t, "replication.enabled=false")
	if last := i.settled(t, 1)[0]; sharesItsState(last) {
		t.Error("at the end one replica shares its state")
	}
	if _, err := i.Kubernetes.CoreV1().PersistentVolumeClaims(steps).Get(t.Context(), "data-steps-sluice-1", metav1.GetOptions{}); err != nil {
		t.Errorf("the volume of the second replica: %v", err)
	}
}

// TestStepsCannotBeJoined shows why one step is refused: the StatefulSet adds the second replica
// before it restarts the first, so one that shares its state is ready beside one that does not.
func TestStepsCannotBeJoined(t *testing.T) {
	t.Parallel()
	i := installation{controlplane.Shared(t)}
	i.Kubectl(t, "create", "namespace", steps)
	for _, set := range []string{"replicas=1", "replicas=2"} {
		manifests, err := i.helm(t, "template", steps, "../charts/sluice", "--set", set) // does not look into the cluster
		if err != nil {
			t.Fatalf("helm template: %v\n%s", err, manifests)
		}
		for _, object := range decode(t, manifests) {
			if object.GetNamespace() == steps {
				apply(t, i.ControlPlane, []*unstructured.Unstructured{object})
			}
		}
		if set == "replicas=1" {
			i.settled(t, 1)
		}
	}
	if pods := i.AwaitPods(t, steps, ofRelease, 2); sharesItsState(pods[0]) || !sharesItsState(pods[1]) {
		t.Errorf("share their state: %v %v; want only the second: is the refusal still needed?", sharesItsState(pods[0]), sharesItsState(pods[1]))
	}
	i.Kubectl(t, "delete", "namespace", steps, "--wait=false")
}
