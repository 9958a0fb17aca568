package ratelog

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestOneMessagePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var second Limiter
		slow := Limiter{Interval: time.Minute}
		for i := range 61 {
			for range 3 {
				suppressed, ok := second.Allow()
				if ok && i > 0 && suppressed != 2 {
					t.Fatalf("second %d: %d suppressed, want 2", i, suppressed)
				}
			}
			suppressed, ok := slow.Allow()
			if want := i%60 == 0; ok != want || i == 60 && suppressed != 59 {
				t.Fatalf("second %d: passed %v after %d suppressed, want %v", i, ok, suppressed, want)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestAClockSetBackDoesNotSilenceTheLog(t *testing.T) {
	var l Limiter
	l.last.Store(time.Now().Add(time.Hour).UnixNano())
	if _, ok := l.Allow(); !ok {
		t.Error("suppressed, though the last message is an hour in the future")
	}
}

// A flood is sampled, and the counts are right to a sample of the flood.
func TestAFloodIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log Limiter
		var recorded, counted int
		const flood = 1_000_000
		for range flood {
			if weight := Weight(log.Allow()); weight > 0 {
				recorded++
				counted += int(weight)
			}
		}
		if counted > flood || counted < flood-fully {
			t.Errorf("%d counted of %d", counted, flood)
		}
		if limit := fully + flood/fully + 1; recorded > limit {
			t.Errorf("%d recorded, want at most %d", recorded, limit)
		}
		time.Sleep(time.Second)
		if Weight(log.Allow()) != 1 {
			t.Error("the first of the next second is not recorded alone")
		}
	})
}
