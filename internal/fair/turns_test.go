package fair

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// Whoever brings little work waits for a turn of each other share, not for all that they have brought before.
func TestSharesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[string](1)
		turns.Take("first")
		var got []string
		var working sync.WaitGroup
		for _, share := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			working.Go(func() {
				turns.Take(share)
				got = append(got, share)
				turns.Give()
			})
			synctest.Wait()
		}
		turns.Give()
		working.Wait()
		if want := []string{"a", "b", "c", "a", "b", "a", "a"}; !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
		if turns.Free() != 1 || len(turns.order)+len(turns.waiting) != 0 {
			t.Errorf("%d places are free at the end, of 1; %v wait", turns.Free(), turns.waiting)
		}
	})
}
