package window

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The changes of several origins, each in order, are merged in order.
func TestJoinedSort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		var j Joined
		var want []float64
		for origin := range r.IntN(5) {
			at := r.Float64()
			for range r.IntN(9) {
				at += float64(r.IntN(3))
				want = append(want, at)
				j.changes = append(j.changes, joinedChange{from: at, origin: origin})
			}
		}
		slices.Sort(want)
		j.sort()
		for i, c := range j.changes {
			if c.from != want[i] {
				t.Fatalf("%v, want %v", j.changes, want)
			}
		}
	}
}
