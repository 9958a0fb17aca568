package cluster

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

// installation is a release of the chart without what belongs to the whole cluster. Its pods run no
// server: the test is about what Kubernetes makes of the manifests.
type installation struct {
	*controlplane.ControlPlane
	namespace string
}

const ofRelease = "app.kubernetes.io/instance=steps"

// upgrade applies the chart as "helm upgrade --set" would.
func (i installation) upgrade(t *testing.T, set string) {
	t.Helper()
	cmd := exec.Command("go", "-C", "../../tools", "tool", "helm", "template", "steps", "../charts/sluice", "--namespace", i.namespace, "--set", set)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm template --set %s: %v", set, err)
	}
	for _, object := range decode(t, string(out)) {
		if object.GetNamespace() != i.namespace {
			continue
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		i.Apply(t, i.namespace, string(text))
	}
}

// settled waits until the StatefulSet has nothing left to do, and returns its pods.
func (i installation) settled(t *testing.T, replicas int32) []core.Pod {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		set := i.set(t)
		if s := set.Status; s.ObservedGeneration == set.Generation && s.Replicas == replicas &&
			s.ReadyReplicas == replicas && s.UpdatedReplicas == replicas && s.CurrentRevision == s.UpdateRevision {
			return i.AwaitPods(t, i.namespace, ofRelease, int(replicas))
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the StatefulSet is not settled: %+v", set.Status)
		}
	}
}

func (i installation) set(t *testing.T) *apps.StatefulSet {
	t.Helper()
	set, err := i.Kubernetes.AppsV1().StatefulSets(i.namespace).Get(t.Context(), "steps-sluice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func sharesItsState(pod core.Pod) bool {
	return slices.Contains(pod.Spec.Containers[0].Args, "--replica-name=$(POD_NAME)")
}

// TestOneReplicaToTwoAndBack follows the chart's README: the API server accepts every step, the
// first replica restarts when its configuration changes and stays up when the second one joins or
// leaves, and the volume of the second one outlives it.
func TestOneReplicaToTwoAndBack(t *testing.T) {
	plane := controlplane.Shared(t)
	i := installation{plane, plane.Namespace(t, "steps")}
	i.upgrade(t, "replicas=1")
	first := i.settled(t, 1)[0]
	if sharesItsState(first) {
		t.Fatal("one replica shares its state")
	}

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

	i.upgrade(t, "replicas=1,replication.enabled=true")
	if left := i.settled(t, 1)[0]; left.UID != shares.UID {
		t.Error("the first restarted when the second left")
	}
	i.upgrade(t, "replicas=1")
	if last := i.settled(t, 1)[0]; sharesItsState(last) {
		t.Error("at the end one replica shares its state")
	}
	if _, err := plane.Kubernetes.CoreV1().PersistentVolumeClaims(i.namespace).Get(t.Context(), "data-steps-sluice-1", metav1.GetOptions{}); err != nil {
		t.Errorf("the volume of the second replica: %v", err)
	}
}

// TestStepsCannotBeJoined shows why one step is refused: the StatefulSet adds the second replica
// before it restarts the first, so one that shares its state is ready beside one that does not.
func TestStepsCannotBeJoined(t *testing.T) {
	plane := controlplane.Shared(t)
	i := installation{plane, plane.Namespace(t, "joined")}
	i.upgrade(t, "replicas=1")
	i.settled(t, 1)
	i.upgrade(t, "replicas=2")
	if pods := i.AwaitPods(t, i.namespace, ofRelease, 2); sharesItsState(pods[0]) || !sharesItsState(pods[1]) {
		t.Errorf("share their state: %v %v; want only the second: is the refusal still needed?", sharesItsState(pods[0]), sharesItsState(pods[1]))
	}
}
