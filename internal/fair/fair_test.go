package fair

import (
	"math/rand/v2"
	"testing"
)

// Whatever steps a share takes, it ends with three times what is left, and the next one with three times what is left
// then.
func TestEachShareLeavesAQuarter(t *testing.T) {
	const budget, shares = 1 << 20, 5
	var s Shares[int, int]
	for share := range shares {
		before := budget - s.Held()
		for s.More(share, budget) > 0 {
			s.Add(share, 1+rand.N(s.More(share, budget)))
		}
		left := budget - s.Held()
		if own := s.Of(share); own > timesLeft*left || timesLeft*left-own >= timesLeft+1 {
			t.Fatalf("A share of %d left %d.", own, left)
		}
		if left < before/(timesLeft+1) {
			t.Fatalf("A share left %d of %d.", left, before)
		}
	}
	for share := range shares {
		s.Add(share, -s.Of(share))
	}
	if s.Held() != 0 || s.Len() != 0 {
		t.Errorf("%d of %d shares are left when each has returned all.", s.Held(), s.Len())
	}
}

// A share that has more than its part, because others came, may take nothing.
func TestAShareAboveItsPartMayTakeNothing(t *testing.T) {
	if more := More(int64(76), 24); more > 0 {
		t.Errorf("More = %d", more)
	}
}
