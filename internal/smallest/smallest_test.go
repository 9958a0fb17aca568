package smallest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func compareInts(a, b *int) int { return cmp.Compare(*a, *b) }

func TestTheSmallestItemsAreKeptOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 500 {
		limit, n, values := 1+random.IntN(20), random.IntN(200), 1+random.IntN(100)
		set, all := Of(limit, compareInts), []int{}
		for range n {
			one := random.IntN(values)
			set.Add(one)
			all = append(all, one)
		}
		slices.Sort(all)
		all = slices.Compact(all)
		got, more := set.Sorted()
		want := all[:min(limit, len(all))]
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: %v, want %v", round, got, want)
		}
		if left := len(all) > limit; more != left {
			t.Fatalf("round %d: more is %v, want %v", round, more, left)
		}
	}
}

func TestTheFirstOfEqualItemsIsKept(t *testing.T) {
	type item struct{ key, n int }
	set := Of(2, func(a, b *item) int { return cmp.Compare(a.key, b.key) })
	for n := range 10 {
		set.Add(item{1, n})
	}
	if got, more := set.Sorted(); len(got) != 1 || got[0].n != 0 || more {
		t.Errorf("%v, more %v", got, more)
	}
}

func TestAnItemThatIsNotTakenCountsAsDropped(t *testing.T) {
	set := Of(1, compareInts)
	set.Add(1)
	set.Add(1) // the set is sorted
	if set.Takes(2) || !set.Takes(1) {
		t.Error("takes what it would not keep, or the other way round")
	}
	if _, more := set.Sorted(); !more {
		t.Error("more is false, want true")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	set := Of(10, compareInts)
	for n := range 10_000 {
		set.Add(-n)
	}
	if cap(set.kept) > 40 {
		t.Errorf("room for %d items, want at most 40", cap(set.kept))
	}
}
