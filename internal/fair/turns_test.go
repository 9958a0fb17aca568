package fair

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// Whoever brings little work waits for a turn of each other share, not for all that they have brought before.
func TestSharesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[string](1, 1)
		_ = turns.Await(t.Context(), "first")
		var got []string
		var working sync.WaitGroup
		for _, share := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			working.Go(func() {
				_ = turns.Await(t.Context(), share)
				got = append(got, share)
				turns.Give(share)
			})
			synctest.Wait()
		}
		turns.Give("first")
		working.Wait()
		if want := []string{"a", "b", "c", "a", "b", "a", "a"}; !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
		if turns.Free() != 1 || len(turns.order)+len(turns.waiting) != 0 {
			t.Errorf("%d places are free at the end, of 1; %v wait", turns.Free(), turns.waiting)
		}
	})
}

// Those who leave the line take no turn, and a place is never lost with them.
func TestThoseWhoLeaveTakeNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[string](1, 1)
		_ = turns.Await(t.Context(), "first")
		ctx, leave := context.WithCancel(t.Context())
		var got []string
		var waiting sync.WaitGroup
		for i, share := range []string{"a", "b", "b", "c", "c"} {
			waiting.Go(func() {
				own := ctx
				if i == 2 || i == 4 {
					own = t.Context()
				}
				if turns.Await(own, share) == nil {
					got = append(got, share)
					turns.Give(share)
				}
			})
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		turns.Give("first")
		waiting.Wait()
		if want := []string{"b", "c"}; !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
		if turns.Await(ctx, "late") != nil { // there is a place
			t.Error("a place that is free is not taken")
		}
		if turns.Give("late"); turns.Free() != 1 || len(turns.order)+len(turns.waiting) != 0 {
			t.Errorf("%d places are free at the end, of 1; %v wait", turns.Free(), turns.waiting)
		}
	})
}

// Work that takes long leaves places to others, and a place that one may not have goes to the next one in order.
func TestAShareHasSomeOfThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[string](4, 2)
		var mu sync.Mutex // guards began
		var began []string
		ends := map[string]chan struct{}{"flood": make(chan struct{}), "shop": make(chan struct{}), "other": make(chan struct{})}
		var working sync.WaitGroup
		for _, share := range []string{"flood", "flood", "flood", "flood", "shop", "other", "shop"} {
			working.Go(func() {
				_ = turns.Await(t.Context(), share)
				mu.Lock()
				began = append(began, share)
				mu.Unlock()
				<-ends[share]
				turns.Give(share)
			})
			synctest.Wait()
		}
		want := []string{"flood", "flood", "shop", "other"}
		if !slices.Equal(began, want) {
			t.Errorf("%q have begun, want %q", began, want)
		}
		close(ends["other"])
		synctest.Wait()
		if want = append(want, "shop"); !slices.Equal(began, want) {
			t.Errorf("then %q, want %q", began, want)
		}
		close(ends["shop"])
		synctest.Wait()
		if !slices.Equal(began, want) {
			t.Errorf("%q have begun, and one share has more than its places", began)
		}
		close(ends["flood"])
		working.Wait()
		if len(began) != 7 || turns.Free() != 4 || len(turns.taken)+len(turns.order)+len(turns.waiting) != 0 {
			t.Errorf("%q have begun; %d places are free at the end, of 4", began, turns.Free())
		}
	})
}
