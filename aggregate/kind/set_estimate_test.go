package kind

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// The standard error is at most 2 %, from a handful of members to millions.
func TestEstimateIsWithinTwoPercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, members := range []int{1, 100, 1500, 5000, 20_000, 200_000} {
		const trials = 60
		squares, bias := 0.0, 0.0
		for range trials {
			var h registers
			for range members {
				h.insert(r.Uint64())
			}
			off := h.estimate()/float64(members) - 1
			squares += off * off
			bias += off
		}
		deviation := math.Sqrt(squares / trials)
		t.Logf("%d members: standard error %.2f %%, bias %.2f %%", members, 100*deviation, 100*bias/trials)
		if deviation > 0.02 {
			t.Errorf("%d members: standard error %.2f %%, want at most 2 %%", members, 100*deviation)
		}
	}
	var none registers
	if none.estimate() != 0 {
		t.Error("nothing is estimated as something")
	}
}

// Live registers and plain ones come to the same, whether taken out at once or in parts.
func TestLiveRegistersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var live liveRegisters
	var want, got registers
	for i := range 50_000 {
		hash := r.Uint64()
		live.insert(hash)
		want.insert(hash)
		if i%7000 == 0 {
			live.into(&got, true)
		}
	}
	live.into(&got, true)
	if got != want {
		t.Error("they differ")
	}
	var again registers
	if !readRegisters(appendRegisters(nil, &got), &again) || again != got {
		t.Error("not read as written")
	}
	for _, bad := range [][]byte{{0}, {0, 99}, {0xff, 0xff, 0x7f, 1}} {
		if readRegisters(bad, &again) {
			t.Errorf("%v is taken", bad)
		}
	}
}

// A writer that found the registers of a set before it rested loses no member.
func TestARestingSetLosesNoMember(t *testing.T) {
	var e memory.Epochs
	writer := e.Register()
	spans := window.NewSpans([]time.Duration{10 * time.Second}, time.Second)
	s, now := NewSet(spans), uint32(1000)
	held := new(liveRegisters)
	s.Many.Store(held)
	s.restLocked(&e)
	s.rollLocked(spans, &e, now)
	held.insert(12345)
	counted := func() float64 {
		u := union{exact: map[uint64]struct{}{}}
		s.readLocked(&u, window.View{FirstTick: now, FirstUnit: spans[0].Unit(now)})
		return u.count()
	}
	if n := counted(); n != 1 {
		t.Errorf("%v members before a roll", n)
	}
	writer.Quiesce(&e)
	s.rollLocked(spans, &e, now)
	if n := counted(); n != 1 || s.Many.Load() != nil || s.resting != nil {
		t.Errorf("%v members after it", n)
	}
	if s.restLocked(&e); s.BytesLocked() != NewSet(spans).BytesLocked() {
		t.Errorf("%d bytes of a set without members", s.BytesLocked())
	}
}
