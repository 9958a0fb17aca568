package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// aroundADeath is how far the rate of a constant stream over ten seconds may be off in the minute around the death
// of an origin, and the share of reads that are off by more than 10 %, an autoscaler's tolerance. ADR 49 says why
// intervals near a tick read worse.
var aroundADeath = []struct {
	interval       time.Duration
	low, high      float64 // in percent
	beyondTenShare float64
}{
	{40 * time.Millisecond, 6, 5, 0},
	{700 * time.Millisecond, 15, 17, 0.005},
	{time.Second, 9, 11, 0.002},
	{1300 * time.Millisecond, 24, 19, 0.005},
	{2500 * time.Millisecond, 2, 3, 0},
}

// Around a death at any moment, the rate of a constant stream is off by at most what ADR 49 says, and by more
// than 10 % for a moment at most.
func TestMergedStreamsAroundADeath(t *testing.T) {
	seeds := size(60, 3, 1)
	for _, bound := range aroundADeath {
		for _, s := range streams {
			if s.dies == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", s.name, bound.interval), func(t *testing.T) {
				t.Parallel()
				low, high, reads, beyond := 0.0, 0.0, 0, 0
				for seed := range seeds {
					rng := rand.New(rand.NewPCG(uint64(seed), 1))
					p := phase{time.Duration(rng.IntN(1000)) * time.Millisecond, time.Duration(rng.IntN(7000)) * time.Millisecond}
					replicated(t, 2, func(r *replicas) {
						r.play(s, bound.interval, "counter", p, s.dies-5*time.Second, s.dies+time.Minute, func(time.Duration) {
							off := r.value("x:rate:10s") - 100
							low, high = min(low, off), max(high, off)
							if reads++; math.Abs(off) > 10 {
								beyond++
							}
						})
					})
				}
				t.Logf("off by %+.1f to %+.1f %%; by more than 10 %%: %d of %d reads", low, high, beyond, reads)
				if low < -bound.low || high > bound.high {
					t.Errorf("the rate is off by %+.1f to %+.1f %%, want -%v to +%v", low, high, bound.low, bound.high)
				}
				if seeds >= 60 && float64(beyond) > bound.beyondTenShare*float64(reads) {
					t.Errorf("%d of %d reads are off by more than 10 %%, want at most %v", beyond, reads, bound.beyondTenShare)
				}
			})
		}
	}
}
