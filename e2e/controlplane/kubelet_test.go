package controlplane

import (
	"net/netip"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	onePod = `
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: one}}
spec: {containers: [{name: main, image: one}]}
`
	hostPod = `
apiVersion: v1
kind: Pod
metadata: {name: host, labels: {app: host}}
spec: {hostNetwork: true, containers: [{name: main, image: host}]}
`
	set = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec:
  serviceName: set
  replicas: 2
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec: {containers: [{name: main, image: set}]}
`
)

func TestHeldPodHasAnAddressThatTheAPIDoesNotKnow(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "held")
	release := c.Kubelet.Hold(ns)
	c.Apply(t, ns, onePod)
	address := c.Kubelet.Address(t, ns, "one")
	time.Sleep(200 * time.Millisecond) // ten times what a pod takes that is not held
	pod, err := c.Kubernetes.CoreV1().Pods(ns).Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if pod.Status.PodIP != "" || pod.Status.Phase != core.PodPending {
		t.Errorf("the API says %s %q of a pod that is held, want Pending and no address", pod.Status.Phase, pod.Status.PodIP)
	}
	release()
	if got := c.AwaitPods(t, ns, "app=one", 1)[0].Status.PodIP; got != address.String() {
		t.Errorf("once released it has %s, want %s", got, address)
	}
}

func TestChosenAddressIsUsedAgain(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "again")
	c.Apply(t, ns, onePod)
	first := c.AwaitPods(t, ns, "app=one", 1)[0]
	address := netip.MustParseAddr(first.Status.PodIP)
	c.Kubectl(t, "delete", "pod", "-n", ns, "one")

	c.Kubelet.Choose(ns, address)
	c.Apply(t, ns, onePod)
	second := c.AwaitPods(t, ns, "app=one", 1)[0]
	if second.UID == first.UID || second.Status.PodIP != first.Status.PodIP {
		t.Errorf("the second pod is %s at %s, the first was %s at %s: want another pod at the same address",
			second.UID, second.Status.PodIP, first.UID, first.Status.PodIP)
	}
}

func TestHostNetworkPodHasTheNodesAddress(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "host")
	c.Apply(t, ns, hostPod)
	if pod := c.AwaitPods(t, ns, "app=host", 1)[0]; pod.Status.PodIP != nodeAddress.String() {
		t.Errorf("its address is %s, want %s", pod.Status.PodIP, nodeAddress)
	}
}

func TestStatefulSetGetsAPodOfTheSameName(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "set")
	c.Apply(t, ns, set)
	before := c.AwaitPods(t, ns, "app=set", 2)
	c.Kubectl(t, "delete", "pod", "-n", ns, "set-0")
	after := c.AwaitPods(t, ns, "app=set", 2)
	if after[0].Name != "set-0" || after[0].UID == before[0].UID || after[1].UID != before[1].UID {
		t.Errorf("pods %s %s after set-0 was deleted, before %s %s: want another set-0 and the same set-1",
			after[0].UID, after[1].UID, before[0].UID, before[1].UID)
	}
}

func TestDeletedPodWaitsForItsFinalizer(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "finalizer")
	c.Apply(t, ns, onePod)
	c.AwaitPods(t, ns, "app=one", 1)
	c.Kubectl(t, "patch", "pod", "-n", ns, "one", "-p", `{"metadata":{"finalizers":["example.org/wait"]}}`)
	c.Kubectl(t, "delete", "pod", "-n", ns, "one", "--wait=false")
	time.Sleep(200 * time.Millisecond)
	if _, err := c.Kubernetes.CoreV1().Pods(ns).Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Errorf("a pod with a finalizer: %v, want that it is there", err)
	}
	c.Kubectl(t, "patch", "pod", "-n", ns, "one", "-p", `{"metadata":{"finalizers":null}}`)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, err := c.Kubernetes.CoreV1().Pods(ns).Get(t.Context(), "one", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("without its finalizer the pod is still there (%v)", err)
		}
	}
}

func TestFinishedPodKeepsItsPhase(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "finished")
	c.Apply(t, ns, onePod)
	c.AwaitPods(t, ns, "app=one", 1)
	must(t, c.Kubelet.Finish(t.Context(), ns, "one", core.PodSucceeded))
	pod, err := c.Kubernetes.CoreV1().Pods(ns).Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if pod.Status.Phase != core.PodSucceeded || ready(*pod) {
		t.Errorf("the pod is %s, ready=%v: want Succeeded and not ready", pod.Status.Phase, ready(*pod))
	}
}
