package aggregate

import (
	"testing"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// Families whose keys have one hash are told apart, and each goes alone.
func TestFamiliesOfOneHash(t *testing.T) {
	const hash = 7
	keys := []familyKey{{"pods", "shop", "a"}, {"pods", "shop", "b"}, {"", "shop", "a"}}
	for gone := range keys {
		x := newIndex()
		shard := &x.shards[0]
		for _, k := range keys {
			shard.addLocked(hash, k)
		}
		shard.removeLocked(shard.family(hash, keys[gone]))
		for i, k := range keys {
			if f := shard.family(hash, k); (f != nil) != (i != gone) || f != nil && f.key != k {
				t.Errorf("without %v, %v is %v", keys[gone], k, f)
			}
		}
		n := 0
		for range shard.each() {
			n++
		}
		if n != len(keys)-1 {
			t.Errorf("%d families are left, want %d", n, len(keys)-1)
		}
	}
	shard := &newIndex().shards[0]
	shard.removeLocked(shard.addLocked(hash, keys[0]))
	if len(shard.families) != 0 {
		t.Error("the last family of a hash left something behind")
	}
}

// Names that last are shared by all series of an object; those that are borrowed are copied.
func TestNamesOfAnEntry(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		x := newIndex()
		name, uid := []byte("web-1"), []byte("uid-1")
		object := metric.Object{Resource: "pods", Namespace: "shop", Name: metric.Borrow(name), UID: metric.Borrow(uid)}
		form := canonicalForm{object: object, name: "requests", lasting: lasting}
		form.sum(&x.hash)
		e, shard := x.enter(&form, metric.Counter)
		shard.mu.Unlock()
		shared := unsafe.StringData(e.name) == &name[0] && unsafe.StringData(e.uid) == &uid[0]
		if shared != lasting || e.name != "web-1" || e.uid != "uid-1" {
			t.Errorf("lasting %t: %s, %s, shared %t", lasting, e.name, e.uid, shared)
		}
	}
}
