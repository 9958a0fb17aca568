package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unique"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const replicaSetsPath = "/apis/apps/v1/replicasets"

func ownedBy(kind, name, uid string) []metav1.OwnerReference {
	controller := true
	return []metav1.OwnerReference{
		{Kind: "Other", Name: "other", UID: "other"}, // no controller
		{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(uid), Controller: &controller},
	}
}

// podOfController is a ready pod.
func podOfController(name, kind, controller, uid string) *corev1.Pod {
	p := aPod("shop", name, "u-"+name)
	p.OwnerReferences = ownedBy(kind, controller, uid)
	p.Labels = map[string]string{"app": controller}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

func aReplicaSet(name, uid string, owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(uid), OwnerReferences: owners}}
}

// readyOf lists the ready pods of "shop" as name=workload, sorted. It can be asked while objects
// change, so it makes one read.
func (v *View) readyOf(t *testing.T, selector string) (all []string) {
	t.Helper()
	parsed, err := labels.Parse(selector)
	must(t, err)
	seq, live := v.readyPods("shop", parsed)
	for o, workload := range seq {
		all = append(all, fmt.Sprintf("%s=%s/%s", o.Name, workload.Kind, workload.Name))
	}
	if len(all) > live {
		t.Errorf("%d pods are ready of %d", len(all), live)
	}
	slices.Sort(all)
	return all
}

// sameAlone asks for each ready pod of "shop" by its name. Nothing may change meanwhile.
func (v *View) sameAlone(t *testing.T) {
	t.Helper()
	all, _ := v.ReadyPods("shop")
	for o, workload := range all {
		if alone, same, ok := v.ReadyPod("shop", o.Name); !ok || alone != o || same != workload {
			t.Errorf("%s alone: %v in %v, %t; want %v in %v", o.Name, alone, same, ok, o, workload)
		}
	}
}

func TestWorkloadOfAPod(t *testing.T) {
	const rs = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
	s := newAPIServer(t)
	s.put(replicaSetsPath, aReplicaSet("web-1", rs, ownedBy("Deployment", "web", "d")...))
	s.put(replicaSetsPath, aReplicaSet("bare", "bare"))
	s.put(podsPath, podOfController("web-1-a", "ReplicaSet", "web-1", rs))
	s.put(podsPath, podOfController("bare-a", "ReplicaSet", "bare", "bare"))
	s.put(podsPath, podOfController("db-0", "StatefulSet", "db", "s"))
	s.put(podsPath, podOfController("late-a", "ReplicaSet", "late-1", "late"))
	s.put(podsPath, aPod("shop", "alone", "u-alone"))
	unready := podOfController("web-1-b", "ReplicaSet", "web-1", rs)
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	s.put(podsPath, unready)
	v := s.view(t)
	v.waitSynced(t)

	want := []string{"bare-a=ReplicaSet/bare", "db-0=StatefulSet/db", "late-a=ReplicaSet/late-1", "web-1-a=Deployment/web"}
	if got := v.readyOf(t, ""); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	v.sameAlone(t)
	if got := v.readyOf(t, "app in (db,web-1)"); !slices.Equal(got, []string{want[1], want[3]}) {
		t.Errorf("%q", got)
	}
	if got := v.readyOf(t, "app notin (db,web-1)"); !slices.Equal(got, []string{want[0], want[2]}) {
		t.Errorf("%q", got)
	}
	for name, want := range map[string]string{
		"web-1-a": "d true true", "web-1-b": "d true true", "bare-a": "bare true true", "db-0": "s true true", "late-a": "late false true",
		"alone": " false false", "none": " false false",
	} {
		workload, resolved, ok := v.Workload(metric.Object{Resource: "pods", Namespace: "shop", Name: name, UID: "u-" + name})
		if got := fmt.Sprint(workload.UID, " ", resolved, " ", ok); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, _, ok := v.Workload(metric.Object{Resource: "pods", Namespace: "shop", Name: "db-0", UID: "another"}); ok {
		t.Error("the workload of a pod that is gone")
	}

	ready := podOfController("web-1-b", "ReplicaSet", "web-1", rs)
	s.put(podsPath, ready)
	s.put(replicaSetsPath, aReplicaSet("late-1", "late", ownedBy("Deployment", "late", "ld")...))
	eventually(t, "that both are told", func() bool {
		return len(v.readyOf(t, "")) == 5 && v.readyOf(t, "app=late-1")[0] == "late-a=Deployment/late"
	})
	v.sameAlone(t)
	s.remove(replicaSetsPath, aReplicaSet("late-1", "late"))
	eventually(t, "that a ReplicaSet is gone", func() bool { return v.readyOf(t, "app=late-1")[0] == "late-a=ReplicaSet/late-1" })
	v.sameAlone(t)
}

// If ReplicaSets are forbidden, each counts as a workload of its own, and nothing waits for them.
func TestReplicaSetsMayBeForbidden(t *testing.T) {
	s := newAPIServer(t)
	s.forbid(replicaSetsPath, true)
	s.put(podsPath, podOfController("web-1-a", "ReplicaSet", "web-1", "r"))
	v := s.view(t)
	v.waitSynced(t)
	if got := v.readyOf(t, ""); len(got) != 1 || got[0] != "web-1-a=ReplicaSet/web-1" {
		t.Errorf("%q", got)
	}
}

// A reference to an owner that is longer than any object's is none: the API server takes a megabyte for each text.
func TestLongOwnersAreNone(t *testing.T) {
	long := strings.Repeat("x", 254)
	for name, change := range map[string]func(*metav1.OwnerReference){
		"apiVersion": func(o *metav1.OwnerReference) { o.APIVersion = long + "/v1" },
		"kind":       func(o *metav1.OwnerReference) { o.Kind = long },
		"name":       func(o *metav1.OwnerReference) { o.Name = long },
		"uid":        func(o *metav1.OwnerReference) { o.UID = types.UID(long) },
	} {
		owners := ownedBy("Deployment", strings.Repeat("d", 253), "d")
		if one, _ := newReplicaSet(aReplicaSet("rs", "rs", owners...)); one.owner == (unique.Handle[metric.Workload]{}) {
			t.Fatal("the longest name there is: no owner")
		}
		change(&owners[1])
		one, _ := newReplicaSet(aReplicaSet("rs", "rs", owners...))
		p := aPod("shop", "p", "p")
		p.OwnerReferences = owners
		if one.owner != (unique.Handle[metric.Workload]{}) || newPod(p).controlled() {
			t.Errorf("a long %s is kept", name)
		}
	}
}
