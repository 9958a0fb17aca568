package cluster

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// largePolicy has a spec of about n bytes.
func largePolicy(namespace, name string, n int) *unstructured.Unstructured {
	return aPolicy(namespace, name, strings.Repeat("x", n))
}

func (c *CustomObjects) converted(t *testing.T, from *unstructured.Unstructured) *CustomObject {
	t.Helper()
	short, ok := c.convert(from)
	if !ok {
		t.Fatal("no custom object")
	}
	return short
}

// bytesOf is what the kept objects of a namespace count.
func (c *CustomObjects) bytesOf(namespace string) (n int) {
	for _, one := range c.list() {
		if one.Namespace == namespace && one.Spec != nil {
			n += len(one.Spec) + customObjectBytes
		}
	}
	return n
}

const mostOfANamespace = freeSpecs + maxSpecs*3/4

// A spec that is larger than any author needs is not kept, and the object says why; those of the cluster are.
func TestLargeSpecsAreNotKept(t *testing.T) {
	c := newCustomWorld().objects
	for _, one := range []struct {
		namespace string
		bytes     int
		kept      bool
	}{{"shop", maxSpec / 2, true}, {"shop", maxSpec, false}, {"shop", 1_400_000, false}, {"", 1_400_000, true}} {
		o := c.converted(t, largePolicy(one.namespace, "p", one.bytes))
		if (o.Spec != nil) != one.kept || (o.Fault == "") != one.kept || o.UID != "p-uid" {
			t.Errorf("%d bytes in %q: %d are kept, fault %q", one.bytes, one.namespace, len(o.Spec), o.Fault)
		}
	}
	if fault := c.converted(t, largePolicy("shop", "p", maxSpec)).Fault; fault != fmt.Sprintf("it has %d bytes in JSON; must have at most 65536", maxSpec+len(`{"rules":[{"deny":true,"metric":""}]}`)) {
		t.Error(fault)
	}
}

// A namespace with any number of objects as large as they may be does not fill the process, and leaves room to others: as
// the objects change, and in a list.
func TestSpecsOfOneNamespaceLeaveRoom(t *testing.T) {
	const size, number = maxSpec - 100, 1000
	for name, fill := range map[string]func(*CustomObjects, []*unstructured.Unstructured){
		"one by one": func(c *CustomObjects, all []*unstructured.Unstructured) {
			for _, one := range all {
				c.put(c.converted(t, one))
				c.put(c.converted(t, one)) // an update takes its room once
			}
		},
		"a list": func(c *CustomObjects, all []*unstructured.Unstructured) {
			var list []*CustomObject
			for _, one := range all {
				list = append(list, c.converted(t, one))
			}
			c.replace(list)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCustomWorld().objects
			var all []*unstructured.Unstructured
			for i := range number {
				all = append(all, largePolicy("flood", fmt.Sprint("p", i), size))
			}
			fill(c, all)
			if n := c.bytesOf("flood"); n > mostOfANamespace || n < mostOfANamespace-2*maxSpec {
				t.Errorf("one namespace has specs of %d MiB", n>>20)
			}
			last := c.named[objectName{"flood", fmt.Sprint("p", number-1)}]
			if last.Spec != nil || !strings.Contains(last.Fault, "leave no room") {
				t.Errorf("the last of %d: fault %q", number, last.Fault)
			}
			for i := range 20 {
				c.put(c.converted(t, largePolicy("shop", fmt.Sprint("p", i), size)))
			}
			if n := c.bytesOf("shop"); n < 20*size {
				t.Errorf("another namespace has %d bytes of 20 policies", n)
			}
			for i := range number - 1 {
				c.drop("flood", fmt.Sprint("p", i))
			}
			if c.put(c.converted(t, all[number-1])); c.bytesOf("flood") < size {
				t.Error("no room when the others are gone")
			}
			if c.replace(nil); c.room.room.Held() != 0 || len(c.room.taken) != 0 {
				t.Errorf("%d bytes are taken by no objects", c.room.room.Held())
			}
		})
	}
}

// Small objects count what they take with their statuses, so a namespace has no more of them than there is room for.
func TestSmallObjectsCountWhatTheyTake(t *testing.T) {
	const number = 10_000
	c := newCustomWorld().objects
	before := heap()
	for i := range number {
		small := aPolicy("shop", fmt.Sprintf("policy-%05d", i), "x")
		small.Object["status"] = map[string]any{"observedGeneration": int64(1), "conditions": []any{map[string]any{"type": "Accepted",
			"status": "False", "reason": "Faulty", "message": strings.Repeat("x", maxStatusText), "observedGeneration": int64(1)}}}
		one := c.converted(t, small)
		c.put(one)
		c.Report(one, CustomStatus{Conditions: []Condition{{Type: "Accepted", Reason: "Compiled"}}})
	}
	if each := (heap() - before) / number; each > customObjectBytes/2 {
		t.Errorf("an object takes %d bytes; want half of %d at most", each, customObjectBytes)
	}
	if most, kept := mostOfANamespace/customObjectBytes, c.bytesOf("shop")/customObjectBytes; kept > most || kept < most/2 {
		t.Errorf("%d small objects are kept; want %d at most", kept, most)
	}
	for i := range number {
		if one := c.named[objectName{"shop", fmt.Sprintf("policy-%05d", i)}]; one.Spec == nil && one.Fault != noRoom {
			t.Fatalf("%s without room: %q", one.Name, one.Fault)
		}
	}
}

// A status that Sluice did not write is not kept if it is large; Sluice replaces it.
func TestLargeStatusesAreNotKept(t *testing.T) {
	c := newCustomWorld().objects
	for bytes, kept := range map[int]bool{maxStatus / 2: true, maxStatus: false} {
		large := aPolicy("shop", "p", "x")
		large.Object["status"] = map[string]any{"lastValue": strings.Repeat("x", bytes)}
		if one := c.converted(t, large); (one.Status != nil) != kept || one.Spec == nil {
			t.Errorf("of a status of %d bytes, %d are kept", bytes, len(one.Status))
		}
	}
}

// A streamed list holds no more than the index will, also if it begins anew.
func TestStreamedListsAreBounded(t *testing.T) {
	w := newCustomWorld()
	convert := w.objects.watch.store.(*reflectorStore[*CustomObject]).Transformer()
	held := map[string]int{}
	for range 2 {
		for i := range 1000 {
			short, err := convert(largePolicy("flood", fmt.Sprint("p", i), maxSpec-100))
			must(t, err)
			if one := short.(*CustomObject); one.Spec != nil {
				held[one.Name] = len(one.Spec) + customObjectBytes
			}
		}
	}
	sum := 0
	for _, n := range held {
		sum += n
	}
	if sum > mostOfANamespace || sum < mostOfANamespace-2*maxSpec {
		t.Errorf("a list holds %d MiB of a namespace", sum>>20)
	}
}

// An object that does not grow keeps its room, though others have filled theirs since: else its status, which changes all the
// time, would cost it its metrics.
func TestAnObjectThatDoesNotGrowKeepsItsRoom(t *testing.T) {
	r := newObjectRoom(0, 100)
	steady := objectName{"shop", "web"}
	if !r.take(steady, 50) || !r.take(objectName{"flood", "web"}, 37) {
		t.Fatal("there is no room at the beginning")
	}
	for _, n := range []int64{50, 40} {
		if !r.take(steady, n) || r.room.Of("shop") != n {
			t.Errorf("%d bytes: it has %d", n, r.room.Of("shop"))
		}
	}
	if r.take(steady, 80) || r.room.Of("shop") != 0 {
		t.Errorf("it grows beyond its share, and has %d", r.room.Of("shop"))
	}
}
