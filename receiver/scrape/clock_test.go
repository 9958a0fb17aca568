package scrape

import (
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// set is a reading of the clock as it would be if the wall clock had been set by some seconds: the monotonic clock goes on. A
// time.Time holds the wall clock's seconds from bit 30 of its first word on.
func set(t *testing.T, at time.Time, seconds int64) time.Time {
	then := at
	*(*uint64)(unsafe.Pointer(&then)) += uint64(seconds << 30)
	if by := time.Duration(seconds) * time.Second; then.Sub(at) != 0 || then.Round(0).Sub(at.Round(0)) != by {
		t.Fatalf("%v is not %v, set by %v", then, at, by)
	}
	return then
}

// A clock that is set back by an hour delays no scrape, and one that is set forward makes none early.
func TestScrapesGoOnWhenTheClockIsSet(t *testing.T) {
	target := &metric.ScrapeTarget{UID: "web-1", Endpoint: metric.Endpoint{Port: 80, Path: "/metrics", Interval: 10 * time.Second}}
	now := time.Now()
	at := phaseAt(now, target)
	if wall := at.Round(0); !wall.Truncate(target.Interval).Add(phaseOf(target, target.Interval)).Equal(wall) {
		t.Errorf("%v is not the target's moment", wall)
	}
	for _, by := range []int64{0, -3600, 3600} {
		if wait := at.Sub(set(t, now, by)); wait <= -target.Interval || wait >= target.Interval {
			t.Errorf("The clock is set by %d s: the target's moment is in %v", by, wait)
		}
	}
}

// An agent that has gone silent is not heard for longer because the clock was set back, nor is one lost because it was
// set forward.
func TestAgentsAreHeardWhenTheClockIsSet(t *testing.T) {
	came := time.Now().Add(-time.Minute)
	for _, by := range []int64{0, -3600, 3600} {
		a := &Agent{came: came}
		n, before := &node{agents: []*Agent{a}}, time.Now()
		a.Heard()
		if scrapes, _ := n.look(set(t, before, by)); scrapes != a {
			t.Errorf("The clock is set by %d s: an agent that was just heard does not scrape", by)
		}
		if scrapes, _ := n.look(set(t, time.Now().Add(heardFor), by)); scrapes == a {
			t.Errorf("The clock is set by %d s: a silent agent scrapes", by)
		}
	}
}
