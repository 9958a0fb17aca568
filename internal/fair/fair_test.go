package fair

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-metrics/sluice/internal/pressure"
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

// What is free of each share is there whatever the others have taken, and is given back as it was taken.
func TestFreePartsTakeNothing(t *testing.T) {
	const free, most = 10, 100
	r := NewRoomBeyond[string](free, most)
	for n := 0; r.Take("flood", 1); n++ {
		if n > free+most {
			t.Fatal("a share has no bound")
		}
	}
	if has := r.Of("flood"); has != free+most*timesLeft/(timesLeft+1) {
		t.Errorf("a share has %d", has)
	}
	for _, n := range []int{free, 2 * free} { // the second one needs the budget, too
		if !r.Take("other", n) {
			t.Fatalf("no room for %d of another share", n)
		}
		r.Give("other", n)
	}
	if r.Take("other", free+most/4+1) {
		t.Error("a share took more than is left")
	}
	r.Give("flood", r.Of("flood"))
	if r.Held() != 0 || r.beyond != 0 {
		t.Errorf("%d are held, %d of the budget, when each has returned all", r.Held(), r.beyond)
	}
}

// While memory is short a share of what is soon given back grows to an eighth of the whole, also where another one has taken all it
// can before. Other rooms stay as they are.
func TestSharesWhileMemoryIsShort(t *testing.T) {
	const whole = 1 << 20
	brief, lasting := NewBriefRoom[string](0, whole), NewRoom[string](whole)
	for brief.Take("flood", 1<<10) {
	}
	isShort = func() bool { return true }
	defer func() { isShort = pressure.High }()
	if brief.Take("flood", 1) {
		t.Error("who has most takes more")
	}
	for brief.Take("other", 1) {
	}
	if has := brief.Of("other"); has != whole/partWhenShort {
		t.Errorf("another one has %d", has)
	}
	if least := whole / 5; MoreWhileShort(0, whole/4, whole, least) != min(least, More(0, whole/4)) {
		t.Error("a share has less than the least")
	}
	if !lasting.Take("one", whole/2) {
		t.Error("a share of what lasts is bounded")
	}
	isShort = func() bool { return false }
	if brief.Give("flood", brief.Of("flood")); !brief.Take("other", whole/4) {
		t.Error("a share is bounded once memory is there again")
	}
}

// What More says can be taken, and nothing beyond it.
func TestMoreIsWhatCanBeTaken(t *testing.T) {
	for _, free := range []int{0, 10} {
		r := NewRoomBeyond[string](free, 100)
		for _, share := range []string{"a", "b", "a", "c"} {
			more := r.More(share)
			if r.Take(share, more+1) || !r.Take(share, more) {
				t.Errorf("free %d: %s may take %d, and could not, or more", free, share, more)
			}
			r.Give("a", 3)
		}
	}
}
