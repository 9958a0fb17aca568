package index

import (
	"testing"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// Families whose keys have one hash are told apart, and each goes alone.
func TestFamiliesOfOneHash(t *testing.T) {
	const hash = 7
	keys := []Key{{"pods", "shop", "a"}, {"pods", "shop", "b"}, {"", "shop", "a"}}
	for gone := range keys {
		x := New()
		shard := &x.Shards[0]
		for _, k := range keys {
			shard.addLocked(hash, k)
		}
		shard.removeLocked(shard.Family(hash, keys[gone]))
		for i, k := range keys {
			if f := shard.Family(hash, k); (f != nil) != (i != gone) || f != nil && f.Key != k {
				t.Errorf("without %v, %v is %v", keys[gone], k, f)
			}
		}
		n := 0
		for range shard.Each() {
			n++
		}
		if n != len(keys)-1 {
			t.Errorf("%d families are left, want %d", n, len(keys)-1)
		}
	}
	shard := &New().Shards[0]
	shard.removeLocked(shard.addLocked(hash, keys[0]))
	if len(shard.Families) != 0 {
		t.Error("the last family of a hash left something behind")
	}
}

// Names that last are shared by all series of an object; those that are borrowed are copied.
func TestNamesOfAnEntry(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		x := New()
		name, uid := []byte("web-1"), []byte("uid-1")
		object := metric.Object{Resource: "pods", Namespace: "shop", Name: metric.Borrow(name), UID: metric.Borrow(uid)}
		form := Identity{Object: object, Name: "requests", Lasting: lasting}
		form.Hash(&x.Hash)
		e, shard := x.Enter(&form, metric.Counter)
		shard.Mu.Unlock()
		shared := unsafe.StringData(e.Name) == &name[0] && unsafe.StringData(e.UID) == &uid[0]
		if shared != lasting || e.Name != "web-1" || e.UID != "uid-1" {
			t.Errorf("lasting %t: %s, %s, shared %t", lasting, e.Name, e.UID, shared)
		}
	}
}
