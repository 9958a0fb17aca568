package window

import (
	"math"
	"testing"
	"time"
)

// toldTimeline is a timeline that hears of an origin every half second.
type toldTimeline struct {
	Timeline
	now time.Time
	at  time.Duration
	// pauses are those that the origin tells of.
	pauses []Pause
}

func newToldTimeline() *toldTimeline {
	return &toldTimeline{now: time.Unix(1e9, 0), at: time.Hour}
}

// hears lets so many messages come, each so late.
func (t *toldTimeline) hears(messages int, late time.Duration) {
	for range messages {
		t.now, t.at = t.now.Add(500*time.Millisecond), t.at+500*time.Millisecond
		t.Told(t.at, t.pauses, t.now.Add(late))
	}
}

// position returns the position of a receiving time, in seconds.
func (t *toldTimeline) position(at time.Duration) float64 {
	c := t.course(t.now, time.Second)
	from, _ := c.extent(uint32(at / time.Second))
	return from
}

// Downtime of the origin is on the axis, but not in its receiving time.
func TestTimelineOfAnOriginThatRestarts(t *testing.T) {
	for _, down := range []time.Duration{400 * time.Millisecond, 20 * time.Second} {
		o := newToldTimeline()
		o.hears(100, 0)
		died := o.at
		o.now = o.now.Add(down)
		o.hears(20, 0)
		if got, want := o.position(o.at-8*time.Second), -8.0; math.Abs(got-want) > 0.02 {
			t.Errorf("after %s, 8 s ago is at %v", down, got)
		}
		if got, want := o.position(died-10*time.Second), -20-down.Seconds(); math.Abs(got-want) > 0.02 {
			t.Errorf("down for %s, 10 s before the end is at %v, want %v", down, got, want)
		}
	}
}

// A late message moves nothing.
func TestTimelineOfLateMessages(t *testing.T) {
	for _, late := range []time.Duration{90 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second} {
		o := newToldTimeline()
		o.hears(100, 0)
		o.hears(1, late)
		o.hears(1, 0)
		if got, want := o.position(o.at-30*time.Second), -30.0; math.Abs(got-want) > 0.02 {
			t.Errorf("%s late: 30 s ago is at %v", late, got)
		}
		if n := len(o.runs); n != 1 {
			t.Errorf("%s late: %d runs", late, n)
		}
	}
}

// A clock that drifts by a hundredth of a percent stays within 50 ms.
func TestTimelineFollowsDrift(t *testing.T) {
	o := newToldTimeline()
	for range 20_000 {
		o.hears(1, 0)
		o.now = o.now.Add(50 * time.Microsecond)
	}
	if got := o.position(o.at - 5*time.Second); math.Abs(got+5) > 0.05 || len(o.runs) != 1 {
		t.Errorf("5 s ago is at %v, in %d runs", got, len(o.runs))
	}
}

// A silent origin stands still, until its clock goes on without it.
func TestTimelineOfASilentOrigin(t *testing.T) {
	o := newToldTimeline()
	o.hears(100, 0)
	for _, silent := range []time.Duration{time.Second, 3 * time.Second, 50 * time.Second} {
		c := o.course(o.now.Add(silent), time.Second)
		if want := silent >= StandsAfter; c.Standing != want || math.Abs(c.Known+silent.Seconds()) > 1e-6 {
			t.Errorf("silent for %s: standing %v, known up to %v", silent, c.Standing, c.Known)
		}
	}
	o.now = o.now.Add(time.Minute)
	o.LetRun(o.now)
	o.now = o.now.Add(5 * time.Second)
	c := o.course(o.now, time.Second)
	if c.Standing || c.Known != 0 {
		t.Errorf("standing %v, known up to %v", c.Standing, c.Known)
	}
	if got := o.position(o.at - 5*time.Second); math.Abs(got+70) > 0.02 {
		t.Errorf("5 s before the silence is at %v", got)
	}
	o.at += 65 * time.Second // it was stopped, and its clock was not
	o.hears(1, 0)
	if got := o.position(o.at - 70500*time.Millisecond); math.Abs(got+70.5) > 0.02 || len(o.runs) != 1 {
		t.Errorf("70.5 s ago is at %v, in %d runs", got, len(o.runs))
	}
}
