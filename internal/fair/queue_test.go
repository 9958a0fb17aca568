package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// pop pops all, each at a cost, and returns the order.
func pop(q *Queue[string, int], cost func(share string) int64) (got []string) {
	for {
		share, item, is := q.Pop()
		if !is {
			return got
		}
		got = append(got, fmt.Sprint(share, item))
		q.Charge(share, cost(share))
	}
}

// Items that cost as much come in turns, those of one share in their order. Of items that cost more, there are fewer.
func TestTheShareThatCostLeastIsNext(t *testing.T) {
	var q Queue[string, int]
	push := func(share string, n int) {
		for i := range n {
			q.Push(share, i)
		}
	}
	one := func(string) int64 { return 1 }
	push("a", 4)
	push("b", 2)
	push("c", 1)
	if got, want := pop(&q, one), []string{"a0", "b0", "c0", "a1", "b1", "a2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	push("b", 6)
	push("a", 3)
	if got, want := pop(&q, func(share string) int64 { return map[string]int64{"a": 30, "b": 10}[share] }),
		[]string{"b0", "a0", "b1", "b2", "a1", "b3", "b4", "b5", "a2"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	if q.Len() != 0 || len(q.lines)+len(q.order.lines) != 0 {
		t.Errorf("%d items, %d lines are left", q.Len(), len(q.lines))
	}
}

// A share that comes waits for one item of each other share at most, however long it was away and whatever those have cost. One
// that is always there gets as much as each other one.
func TestAShareThatComesIsNext(t *testing.T) {
	var q Queue[string, int]
	cost := map[string]int64{}
	for range 1000 {
		for _, share := range []string{"flood", "other"} {
			for q.lines[share] == nil || len(q.lines[share].items) < 3 {
				q.Push(share, 0)
			}
		}
		if rand.N(50) == 0 {
			q.Push("rare", 0)
			for i := 0; ; i++ {
				share, _, _ := q.Pop()
				if q.Charge(share, 7); share == "rare" {
					break
				}
				if cost[share] += 7; i > 2 {
					t.Fatal("a share that came waited for more than a turn of each other share")
				}
			}
		}
		share, _, _ := q.Pop()
		by := map[string]int64{"flood": 50, "other": 3}[share]
		q.Charge(share, by)
		cost[share] += by
	}
	if d := cost["flood"] - cost["other"]; d < -60 || d > 60 {
		t.Errorf("costs %v", cost)
	}
}

// Work that ends and comes again is charged for what it has cost before.
func TestAShareThatLeavesOwesNothingLess(t *testing.T) {
	var q Queue[string, int]
	q.Push("flood", 0)
	q.Push("shop", 0)
	q.Pop()
	q.Charge("flood", 100)
	q.Push("flood", 1) // at each time, it has one item at most
	for i := range 10 {
		if share, _, _ := q.Pop(); share != "shop" {
			t.Fatalf("item %d is of %s", i, share)
		}
		q.Charge("shop", 9)
		q.Push("shop", i)
	}
}
