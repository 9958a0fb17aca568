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

// Changes on both sides of a downtime are no time in which the origin received all the time, though their
// ticks are adjacent.
func TestJoinedRunEndsAtADowntime(t *testing.T) {
	before := joinedChange{from: 3, to: 3.4, tick: 8}
	for _, c := range []struct {
		name  string
		after joinedChange
		want  bool
	}{
		{"the next tick", joinedChange{from: 3.4, to: 4.4, tick: 9}, true},
		{"after a downtime", joinedChange{from: 23, to: 24, tick: 9}, false},
		{"a tick later", joinedChange{from: 3.4, to: 4.4, tick: 10}, false},
		{"another origin", joinedChange{from: 3.4, to: 4.4, tick: 9, origin: 1}, false},
	} {
		if got := c.after.follows(&before); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
