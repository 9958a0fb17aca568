package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A silent replica serves while its pod is ready and an endpoint of a Service: as long as the API server
// says so, and while it says nothing.
func TestReplicaServes(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	s := newAPIServer(t)
	s.serve(path, "EndpointSlice")
	s.served[path].apiVersion = "discovery.k8s.io/v1"
	v, _ := s.replica(t, "sluice-0")
	pod := func(is corev1.ConditionStatus) *corev1.Pod {
		p := aPod(metav1.NamespaceDefault, "sluice-1", "u-sluice-1", "10.0.0.1")
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}
		return p
	}
	slice := func(is discoveryv1.EndpointConditions) *discoveryv1.EndpointSlice {
		e := anEndpointSlice("sluice-1", "sluice", "sluice-1")
		e.Namespace, e.Endpoints[0].TargetRef.Namespace, e.Endpoints[0].Conditions = metav1.NamespaceDefault, metav1.NamespaceDefault, is
		return e
	}
	wait := func(what string, want bool) {
		t.Helper()
		eventually(t, what, func() bool { return v.ReplicaServes("sluice-1") == want })
	}
	if s.listed(path) > 0 {
		t.Error("the API server is asked, though no replica is silent")
	}
	if v.ReplicaServes("sluice-1") {
		t.Error("a pod that isn't there serves")
	}
	s.put(podsPath, pod(corev1.ConditionTrue))
	eventually(t, "the endpoints", func() bool { v.ReplicaServes("sluice-1"); return s.listed(path) > 1 })
	if v.ReplicaServes("sluice-1") {
		t.Error("a pod that no Service names serves")
	}
	s.put(path, slice(discoveryv1.EndpointConditions{}))
	wait("a ready pod that a Service names", true)
	s.put(path, slice(discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(true)}))
	wait("an endpoint that ends", false)
	s.put(path, slice(discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)}))
	wait("an endpoint again", true)
	s.put(path, slice(discoveryv1.EndpointConditions{Ready: new(true), Serving: new(false)})) // of a headless Service
	wait("an endpoint that doesn't serve", false)
	s.put(path, slice(discoveryv1.EndpointConditions{}))
	wait("an endpoint again", true)
	s.put(podsPath, pod(corev1.ConditionFalse))
	wait("a pod that isn't ready", false)
	s.put(podsPath, pod(corev1.ConditionTrue))
	wait("a ready pod", true)
	s.forbid(path, true)
	for range 2 { // the second question is taken after the first one's answer
		v.ReplicaServes("sluice-1")
		eventually(t, "a question", func() bool { return len(v.replicaPods.asked) == 0 })
	}
	if !v.ReplicaServes("sluice-1") {
		t.Error("without an answer, the one before holds")
	}
}
