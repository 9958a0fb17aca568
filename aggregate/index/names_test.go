package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
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
