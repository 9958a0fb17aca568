package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manyLabels are n labels that no other object has.
func manyLabels(of string, n int) map[string]string {
	all := map[string]string{"app": "web"}
	for i := range n {
		all[fmt.Sprint("l", i)] = of
	}
	return all
}

func podWithLabels(namespace, name string, n int) *corev1.Pod {
	p := aPod(namespace, name, "uid-"+namespace+name)
	p.Labels = manyLabels(name, n)
	return p
}

// A namespace whose pods have as many labels as the API server takes does not fill the process.
func TestLabelsOfOneNamespaceLeaveRoom(t *testing.T) {
	p := newPods(&Observer{})
	before := heap()
	for i := range 8 {
		p.put(newPod(podWithLabels("flood", fmt.Sprint("huge-", i), 50_000))) // 0.9 MB for the API server
	}
	for i := range 200 {
		p.put(newPod(podWithLabels("flood", fmt.Sprint("large-", i), 1000)))
	}
	if took := int64(heap()) - int64(before); took > 2*maxLabelRoom {
		t.Errorf("the labels of one namespace take %d MiB", took>>20)
	}
	p.put(newPod(podWithLabels("shop", "web", 500)))
	if found, _ := p.matching("shop", selectorOf(t, "app=web,l499=web"), noBound); len(found) != 1 {
		t.Errorf("%d pods of another namespace are found by their labels, want 1", len(found))
	}
	p.replace(nil)
	if held := p.room.Held(); held != 0 {
		t.Errorf("%d bytes are taken by no pods", held)
	}
}

// An update of a pod whose labels another pod has too compares few labels while readers wait.
func TestPodsThatShareManyLabels(t *testing.T) {
	p := newPods(&Observer{})
	for i := range 4 {
		one := aPod("flood", fmt.Sprint("p", i), fmt.Sprint("uid-", i))
		one.Labels = manyLabels("same", 50_000)
		p.put(newPod(one))
	}
	if found := p.byName("flood", "p0"); len(found.labels) > maxLabels {
		t.Errorf("%d labels of one pod are indexed: a removal compares each with each", len(found.labels))
	}
}

func TestLabelsOfObjectsLeaveRoom(t *testing.T) {
	o := newObjects("deployments.apps", &Observer{})
	put := func(namespace, name string, version int) {
		one, _ := newObject(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			UID: types.UID(fmt.Sprint(name, version)), Labels: manyLabels(name, 1000)}})
		o.put(one)
	}
	for i := range 300 {
		put("flood", fmt.Sprint("d", i), 0)
		put("flood", fmt.Sprint("d", i), 1)
	}
	if held := o.room.Of("flood"); held > maxLabelRoom*3/4 || held == 0 {
		t.Errorf("one namespace takes %d bytes of %d", held, maxLabelRoom)
	}
	if put("shop", "web", 0); o.find("shop", "web").labels == nil {
		t.Error("another namespace has no room")
	}
	o.replace(nil)
	if held := o.room.Held(); held != 0 {
		t.Errorf("%d bytes are taken by no objects", held)
	}
}
