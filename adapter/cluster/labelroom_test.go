package cluster

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/internal/fair"
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

func (p *pods) converted(whole *corev1.Pod) *pod {
	short, _ := p.convert(false)(whole)
	return short
}

// A namespace whose pods have as many labels as the API server takes does not fill the process.
func TestLabelsOfOneNamespaceLeaveRoom(t *testing.T) {
	p := newPods(&Observer{})
	p.labelRoom = labelRoom{fair.NewRoomBeyond[string, int64](1<<20, 8<<20)}
	p.labelTexts = p.labelRoom.ofKind()
	before := heap()
	for i := range 8 {
		p.put(p.converted(podWithLabels("flood", fmt.Sprint("huge-", i), 50_000))) // 0.9 MB for the API server
	}
	for i := range 200 {
		p.put(p.converted(podWithLabels("flood", fmt.Sprint("large-", i), 1000)))
	}
	for i := range 2000 {
		p.put(p.converted(podWithLabels("flood", fmt.Sprint("many-", i), 60)))
	}
	if took := int64(heap()) - int64(before); took > 10<<20 {
		t.Errorf("the labels of one namespace take %d MiB", took>>20)
	}
	p.put(p.converted(podWithLabels("shop", "web", 500)))
	if found, _ := p.matching("shop", selectorOf(t, "app=web,l499=web"), noBound); len(found) != 1 {
		t.Errorf("%d pods of another namespace are found by their labels, want 1", len(found))
	}
	p.replace(nil)
	if held := p.labelRoom.Held(); held != 0 {
		t.Errorf("%d bytes are taken by no pods", held)
	}
}

// What is taken of the room is not less than what the labels take of the heap.
func TestRoomOfLabelsIsTheirMemory(t *testing.T) {
	const pods = 2000
	heapOf := func(labels func(n int) map[string]string) (bytes, taken int64) {
		p := newPods(&Observer{})
		before := heap()
		for i := range pods {
			one := aPod("flood", fmt.Sprint("p", i), fmt.Sprint("uid-", i))
			one.Labels = labels(i)
			p.put(p.converted(one))
		}
		bytes, taken = int64(heap())-int64(before), p.labelRoom.Of("flood")
		runtime.KeepAlive(p)
		return bytes, taken
	}
	none, _ := heapOf(func(int) map[string]string { return nil })
	for name, labels := range map[string]func(n int) map[string]string{
		"own":    func(n int) map[string]string { return manyLabels(fmt.Sprint(n), 60) },
		"shared": func(int) map[string]string { return manyLabels("same", 60) },
	} {
		bytes, taken := heapOf(labels)
		text := int64(pods * len(newLabelSet(labels(pods)).String()))
		t.Logf("%s: labels of %d bytes take %d in memory, %d of the room", name, text, bytes-none, taken)
		if bytes-none > taken+text {
			t.Errorf("%s: labels of %d bytes take %d in memory, but %d of the room", name, text, bytes-none, taken)
		}
	}
}

// The name of a label that pods have after the first one has gone does not keep the labels of that.
func TestLabelsOfGonePodsAreGone(t *testing.T) {
	p := newPods(&Observer{})
	before := heap()
	for i := range 1000 {
		first := aPod("flood", "first", "uid-first")
		first.Labels = map[string]string{fmt.Sprint("l", i): "v"}
		for n := range 60 {
			first.Labels[fmt.Sprint("long-", i, "-", n)] = strings.Repeat("v", 63)
		}
		p.put(newPod(first))
		p.put(newPod(labelled(aPod("flood", fmt.Sprint("p", i), fmt.Sprint("uid-", i)), fmt.Sprint("l", i), "v")))
		p.drop("flood", "first")
	}
	if took := int64(heap()) - int64(before); took > 2<<20 {
		t.Errorf("1,000 pods with one label take %d KiB", took>>10)
	}
	runtime.KeepAlive(p)
}

func TestLabelSet(t *testing.T) {
	for name, test := range map[string]struct{ from, want map[string]string }{
		"none":      {nil, nil},
		"empty":     {map[string]string{}, nil},
		"ordinary":  {map[string]string{"b": "2", "a": "1", "app.kubernetes.io/name": "shop"}, map[string]string{"a": "1", "b": "2", "app.kubernetes.io/name": "shop"}},
		"no value":  {map[string]string{"a": "", "b": ""}, map[string]string{"a": "", "b": ""}},
		"a prefix":  {map[string]string{"a": "1", "aa": "2"}, map[string]string{"a": "1", "aa": "2"}},
		"a zero":    {map[string]string{"a": "1\x00b\x002", "c": "3"}, nil},
		"too large": {map[string]string{"a": strings.Repeat("v", maxLabelText)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			set := newLabelSet(test.from)
			if got := set.asMap(); !maps.Equal(got, test.want) || set.count() != len(test.want) {
				t.Errorf("%q, %d of them; want %q", got, set.count(), test.want)
			}
			for key, value := range test.want {
				if got, ok := set.Lookup(key); !ok || got != value || set.Get(key) != value || !set.Has(key) {
					t.Errorf("%s is %q %v, want %q", key, got, ok, value)
				}
			}
			if set.Has("") || set.Has("app") || set.Has("1") {
				t.Error("it has a key that is none")
			}
		})
	}
}

func TestLabelsOfObjectsLeaveRoom(t *testing.T) {
	o := newObjects("deployments.apps", &Observer{})
	put := func(namespace, name string, version int) {
		one, _ := o.convert(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			UID: types.UID(fmt.Sprint(name, version)), Labels: manyLabels(name, 1000)}})
		o.put(one)
	}
	room := labelRoom{fair.NewRoomBeyond[string, int64](0, 1<<20)}
	o.room = room.ofKind()
	for i := range 300 {
		put("flood", fmt.Sprint("d", i), 0)
		put("flood", fmt.Sprint("d", i), 1)
	}
	if held := room.Of("flood"); held > 3<<20/4 || held == 0 {
		t.Errorf("one namespace takes %d bytes of 1 MiB", held)
	}
	if put("shop", "web", 0); o.find("shop", "web").labels == (labelSet{}) {
		t.Error("another namespace has no room")
	}
	o.replace(nil)
	if held := room.Held(); held != 0 {
		t.Errorf("%d bytes are taken by no objects", held)
	}
}

// A list is converted as a whole before any of it is indexed, and holds no more labels than the
// index will, also if it begins anew.
func TestLabelsOfAListLeaveRoom(t *testing.T) {
	const number, labels = 300, 1000 // some 10 kB each
	room := labelRoom{fair.NewRoomBeyond[string, int64](0, 1<<20)}
	o := newObjects("deployments.apps", &Observer{})
	p := newPods(&Observer{})
	p.labelRoom, p.labelTexts, o.room = room, room.ofKind(), room.ofKind()
	name := func(i int) string { return fmt.Sprint("o", i) }
	list := func() (all []*pod, objects []*object, text int) {
		for i := range number {
			pod := p.converted(podWithLabels("flood", name(i), labels))
			object, _ := o.convert(&metav1.PartialObjectMetadata{ObjectMeta: podWithLabels("flood", name(i), labels).ObjectMeta})
			all, objects = append(all, pod), append(objects, object)
			text += len(pod.labels.String()) + len(object.labels.String())
		}
		return all, objects, text
	}
	list()
	pods, objects, text := list()
	if text > 1<<20 || text == 0 {
		t.Errorf("a list holds labels of %d bytes of one namespace, want at most 1 MiB", text)
	}
	p.replace(pods)
	o.replace(objects)
	if held := room.Of("flood"); held > 1<<20 {
		t.Errorf("the index holds %d bytes", held)
	}
	p.converted(finished(podWithLabels("flood", name(0), labels)))
	p.converted(podWithLabels("shop", "of a list that broke off", labels))
	o.replace(nil)
	if p.replace(nil); room.Held() != 0 {
		t.Errorf("%d bytes are taken by nothing", room.Held())
	}
}
