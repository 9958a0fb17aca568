package window

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// A timeline that begins knows the origin's earlier pauses from the origin, and a late first message
// moves it as a whole.
func TestTimelineTakesPauses(t *testing.T) {
	o := newToldTimeline()
	o.pauses = []Pause{{o.at - 50*time.Second, 5 * time.Second}, {o.at - 20*time.Second, 10 * time.Second}}
	began := o.at
	o.hears(1, 400*time.Millisecond)
	o.hears(9, 0)
	since := (o.at - began).Seconds()
	for ago, want := range map[time.Duration]float64{10 * time.Second: 10, 30 * time.Second: 40, 60 * time.Second: 75} {
		if got := o.position(began - ago); math.Abs(got+want+since) > 0.02 {
			t.Errorf("%s before the first message is at %v, want %v", ago, got, -want-since)
		}
	}
	o.pauses = append(o.pauses, Pause{o.at, 300 * time.Millisecond})
	died := o.at
	o.now = o.now.Add(300 * time.Millisecond)
	o.hears(1, 0)
	if got := o.position(died - time.Second); math.Abs(got+1.8) > 0.02 {
		t.Errorf("a short pause that the origin told of: %v", got)
	}
}

// A clock remembers the pauses of a day.
func TestClockRemembersPauses(t *testing.T) {
	c := NewClock([]time.Duration{10 * time.Second, time.Minute})
	c.down = 7 * time.Second
	c.Resume(40*time.Hour, time.Second, []Pause{{15 * time.Hour, time.Second}, {17 * time.Hour, 2 * time.Second}})
	got := c.Pauses()
	if len(got) != 2 || got[0] != (Pause{17 * time.Hour, 2 * time.Second}) || got[1] != (Pause{40 * time.Hour, 7 * time.Second}) {
		t.Errorf("%v", got)
	}
}

// AtOf counts the pauses of a day: a deletion may be that old, while windows reach back far less.
func TestAtOfAcrossPauses(t *testing.T) {
	const resumed = 100 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		c := NewClock([]time.Duration{10 * time.Second, time.Minute})
		c.down = time.Minute
		c.Resume(resumed, time.Second, []Pause{{resumed - 21*time.Hour, time.Hour}, {resumed - 20*time.Hour, time.Hour}})
		m := c.Now()
		for ago, want := range map[time.Duration]time.Duration{
			30 * time.Second:              0, // in a pause
			time.Hour + time.Minute:       time.Hour,
			20*time.Hour + 31*time.Minute: 20 * time.Hour, // in a pause
			21*time.Hour + 31*time.Minute: 20*time.Hour + 30*time.Minute,
			22*time.Hour + 31*time.Minute: 21 * time.Hour, // in a pause
			23*time.Hour + 2*time.Minute:  21*time.Hour + time.Minute,
		} {
			if got := m.At - c.AtOf(m, m.Wall.Add(-ago)); got != want {
				t.Errorf("%s ago is %s of receiving time ago, want %s", ago, got, want)
			}
		}
	})
}

// After a restart, a single push gets an entry apart from one before in the same tick; a stream's do
// not.
func TestRecordAfterAPause(t *testing.T) {
	n := NewLogs(NewSpans([]time.Duration{10 * time.Second}, time.Second), func(int64) bool { return true })
	var single, stream History
	for tick := range uint32(5) {
		stream.Record(n, WholeCoding, 96+tick, uint64(tick))
	}
	single.Record(n, WholeCoding, 93, 1)
	single.Record(n, WholeCoding, 100, 2)
	n.resumed = 100
	single.Record(n, WholeCoding, 100, 3)
	stream.Record(n, WholeCoding, 100, 5)
	if single.Stamp != 101 || stream.Stamp != 100 {
		t.Errorf("entries in ticks %d and %d, want 101 and 100", single.Stamp, stream.Stamp)
	}
}
