package fair

import (
	"math/rand/v2"
	"testing"
)

// Whatever steps a share takes, it ends with three times what is left, and the next one with three times what is left
// then.
func TestEachShareLeavesAQuarter(t *testing.T) {
	const budget, shares = 1 << 20, 5
	left := budget
	for range shares {
		held, before := 0, left
		for More(held, left) > 0 {
			step := 1 + rand.N(More(held, left))
			held, left = held+step, left-step
		}
		if held > timesLeft*left || timesLeft*left-held >= timesLeft+1 {
			t.Fatalf("A share of %d left %d.", held, left)
		}
		if left < before/(timesLeft+1) {
			t.Fatalf("A share left %d of %d.", left, before)
		}
	}
}

// A share that has more than its part, because others came, may take nothing.
func TestAShareAboveItsPartMayTakeNothing(t *testing.T) {
	if more := More(int64(76), 24); more > 0 {
		t.Errorf("More = %d", more)
	}
}
