package fair

import (
	"testing"
	"time"
)

// Work that takes long once, because another process has the processor, costs little.
func TestOneSlowPieceOfWorkIsForgiven(t *testing.T) {
	var c Costs[string]
	now := time.Unix(1_800_000_000, 0)
	for _, took := range []time.Duration{5 * time.Microsecond, time.Second, 5 * time.Microsecond} {
		now = now.Add(took)
		if cost := c.Count("shop", took, now); cost > time.Millisecond || cost > took {
			t.Errorf("a piece of work of %v costs %v", took, cost)
		}
	}
}

// The cost of a share that always takes long counts in full, whatever cheap work is between, and that of another one doesn't.
func TestCostsAreRememberedByShare(t *testing.T) {
	var c Costs[string]
	now := time.Unix(1_800_000_000, 0)
	var cost time.Duration
	for range 6 {
		for range 100 {
			c.Count("flood", time.Microsecond, now)
		}
		now = now.Add(time.Second)
		cost = c.Count("flood", time.Second, now)
	}
	if cost != time.Second {
		t.Errorf("work of a second costs %v", cost)
	}
	if cost := c.Count("shop", time.Second, now); cost != leastCost {
		t.Errorf("the first work of another share costs %v", cost)
	}
	if c.Count("late", 0, now.Add(3*time.Hour)); len(c.of) != 1 {
		t.Errorf("%d shares are remembered after three hours, of which one came", len(c.of))
	}
}

// A share that rests for ten times what its work costs takes little more than a tenth of the time, however long its work
// takes, and however long it waits for the cost to be forgotten.
func TestARestByCostLeavesTime(t *testing.T) {
	for _, took := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
		for pause := time.Duration(0); pause < 20*time.Minute; pause = 2*pause + time.Second {
			var c Costs[string]
			begin := time.Unix(1_800_000_000, 0)
			now, worked := begin, time.Duration(0)
			for i := range 1000 {
				now = now.Add(took)
				cost := c.Count("flood", took, now)
				if now = now.Add(max(pause, 10*cost)); i == 8 {
					begin = now // the first ones count little
				} else if i > 8 {
					worked += took
				}
			}
			if all := now.Sub(begin); worked > all/8 {
				t.Errorf("work of %v with pauses of %v took %v of %v", took, pause, worked, all)
			}
		}
	}
}
