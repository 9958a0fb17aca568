package aggregate

import (
	"fmt"
	"math/rand/v2"
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

// Series of many objects that have the same labels beside have them in one piece of memory.
func TestLabelsAreShared(t *testing.T) {
	f := newFixture(t)
	for i := range 100 {
		f.push(fmt.Sprintf("hits:1|c|#pod:p%d,ns:ns,code:200", i))
	}
	first := f.blocks.at[0].Load().series[0].first
	for place := range 100 {
		if s := &f.blocks.at[0].Load().series[place]; s.first != first || s.labels().String() != "{code=200}" {
			t.Fatalf("series %d has %s by itself", place, s.labels())
		}
	}
}

// Numbers are found by their hashes however often their table has grown, until they are removed.
func TestSlotsGrow(t *testing.T) {
	s := newSlots()
	random := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, 200_000)
	for i := range hashes {
		hashes[i] = random.Uint64()
		s.shard(hashes[i]).addLocked(hashes[i], uint32(i)+firstNumber)
	}
	for i := range hashes {
		if i%3 == 0 {
			s.shard(hashes[i]).removeLocked(hashes[i], uint32(i)+firstNumber)
		}
	}
	steps := 0
	for i, hash := range hashes {
		found := false
		for p := s.probe(hash); !found; steps++ {
			number := p.next()
			if number == 0 {
				break
			}
			found = number == uint32(i)+firstNumber
		}
		if found != (i%3 != 0) {
			t.Fatalf("number %d: found %v", i, found)
		}
	}
	if steps > len(hashes)+len(hashes)/100 {
		t.Errorf("%d numbers were compared for %d hashes: tags do not tell them apart", steps, len(hashes))
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
