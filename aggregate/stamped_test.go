package aggregate

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// S1 to S3: with many writers at once a reader sees a value together with its timestamp, never goes back in time, and at the
// end the newest value stands.
func TestStampedGaugeNeverGoesBack(t *testing.T) {
	g := new(stamped)
	g.begin(math.Float64bits(0), 0)
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	readers.Go(func() {
		last := 0.0
		for !stop.Load() {
			v := math.Float64frombits(g.load())
			if v < last {
				t.Errorf("%v after %v", v, last)
				return
			}
			last = v
		}
	})
	const most = 20_000
	for w := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for at := range uint32(most) {
				// The value is its timestamp; some come late.
				late := at - min(at, uint32(r.IntN(50)))
				g.assign(float64(late), late)
			}
			g.assign(most, most)
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if v := math.Float64frombits(g.load()); v != most {
		t.Errorf("%v stands, want %d", v, most)
	}
	claimed := 0
	for i := range g.slots {
		if g.slots[i].claimed.Load() {
			claimed++
		}
	}
	if claimed != 1 {
		t.Errorf("%d slots are claimed, want the one that the head names", claimed)
	}
}

// Shifts from many writers all count.
func TestStampedShiftsAddUp(t *testing.T) {
	g := new(stamped)
	g.begin(gaugeUnset, 0)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for range 10_000 {
				g.shift(1, uint32(w))
			}
		})
	}
	writers.Wait()
	if v := math.Float64frombits(g.load()); v != 40_000 {
		t.Errorf("%v, want 40000", v)
	}
}
