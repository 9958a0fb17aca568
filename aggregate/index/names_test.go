package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// A family's names are what a map would hold, also where many of them have the same tag.
func TestNamesAreThoseOfAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	for _, tags := range []uint64{1, 7, 1 << 20} {
		var n nameTable
		want := map[string]*Entry{}
		for range 20_000 {
			e := &Entry{Name: fmt.Sprint(random.IntN(500))}
			var number uint64
			_, _ = fmt.Sscan(e.Name, &number)
			hash := number % tags << 32
			if random.IntN(3) == 0 {
				n.remove(hash, e.Name)
				delete(want, e.Name)
			} else {
				n.put(hash, e)
				want[e.Name] = e
			}
			if got := n.find(hash, e.Name); got != want[e.Name] || n.live != len(want) {
				t.Fatalf("%d tags, name %s: %p of %d, want %p of %d", tags, e.Name, got, n.live, want[e.Name], len(want))
			}
		}
		got := map[string]*Entry{}
		for e := range n.All() {
			got[e.Name] = e
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d tags: yields %d entries, want %d", tags, len(got), len(want))
		}
		if len(n.slots) > 4*500 {
			t.Errorf("%d slots for 500 names", len(n.slots))
		}
	}
}

// Names may change, and the table may grow, while a reader iterates: each name that stays is
// yielded once, in its state by then.
func TestNamesChangeWhileTheyAreYielded(t *testing.T) {
	const before = 100
	hash := func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }
	var n nameTable
	numbers := map[*Entry]int{}
	put := func(i int) {
		e := &Entry{Name: fmt.Sprint(i)}
		n.put(hash(i), e)
		numbers[e] = i
	}
	for i := range before {
		put(i)
	}
	yielded := map[int]int{}
	for e := range n.All() {
		i := numbers[e]
		if yielded[i]++; i < before && n.find(hash(i), e.Name) != e {
			t.Fatalf("%d was yielded with an entry that it no longer has", i)
		}
		if len(yielded) == before/5 {
			for i := range 100 * before {
				put(before + i)
			}
			for i := range before {
				switch i % 3 {
				case 0:
					n.remove(hash(i), fmt.Sprint(i))
				case 1:
					put(i)
				}
			}
		}
	}
	for i := range before {
		if i%3 != 0 && yielded[i] != 1 {
			t.Errorf("%d stayed and was yielded %d times", i, yielded[i])
		}
	}
}

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

func TestSortByName(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, alphabet := range []string{"ab", "a\x00\xff", "web-7d9c5b"} {
		for range 300 {
			shared := strings.Repeat("x", random.IntN(10))
			var names []string
			var all []Found
			for range random.IntN(30) {
				name := []byte(shared)
				for range random.IntN(12) {
					name = append(name, alphabet[random.IntN(len(alphabet))])
				}
				names = append(names, string(name))
				all = append(all, Found{Entry: &Entry{Name: string(name)}})
			}
			slices.Sort(names)
			got := (&Buffer{found: all}).sort()
			if len(got) != len(names) {
				t.Fatalf("%d of %d", len(got), len(names))
			}
			for i := range got {
				if got[i].Entry.Name != names[i] {
					t.Fatalf("at %d of %q stands %q", i, names, got[i].Entry.Name)
				}
			}
		}
	}
}
