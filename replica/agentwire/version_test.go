package agentwire

import "testing"

// A version works with the one before and the one after, and with no other.
func TestSpeaks(t *testing.T) {
	for _, c := range []struct {
		own, other uint32
		works      bool
	}{{1, 0, false}, {1, 1, true}, {1, 2, true}, {1, 3, false}, {4, 2, false}, {4, 3, true}, {4, 4, true}, {4, 5, true}, {4, 6, false}} {
		if speaks(c.own, c.other) != c.works {
			t.Errorf("version %d works with %d: %t", c.own, c.other, !c.works)
		}
	}
}
