package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
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

// Since is Read without the entries before a tick, whatever it need not decode.
func TestSince(t *testing.T) {
	n := NewLogs(NewSpans([]time.Duration{10 * time.Second, time.Minute}, time.Second), func(int64) bool { return true })
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []Coding{WholeCoding, FloatCoding, WeightCoding} {
		for range 200 {
			var p History
			tick, value, pauses := uint32(1), uint64(0), 1+r.Uint32N(4)
			for range 1 + r.IntN(150) {
				tick += r.Uint32N(1 + pauses)
				value += r.Uint64N(1 << r.UintN(40))
				p.Record(n, c, tick, value)
				checkSince(t, n, c, &p, tick)
				if r.IntN(20) == 0 {
					p.Shrink(n, c, tick)
				}
			}
			p.FreeLog(n)
		}
	}
}

func checkSince(t *testing.T, n *Logs, c Coding, p *History, now uint32) {
	t.Helper()
	for tick := now - min(now, 5); tick <= now+1; tick++ {
		want := p.Read(n, c, nil)
		for len(want) > 1 && want[0].Tick < tick {
			want = want[1:]
		}
		room := make([]Entry, 0, 256)
		got := p.Since(n, c, tick, 0, room)
		if !slices.Equal(got, want) {
			t.Fatalf("entries since tick %d: %v, want %v", tick, got, want)
		}
		if &got[0] != &room[:1][0] { // a flush uses one buffer for all series
			t.Fatalf("entries since tick %d are not at the start of the buffer", tick)
		}
	}
}

// A dated sample has a record in as many units as are kept: in one more it would take the place of
// the oldest that counts.
func TestASpanKeepsAsManyUnitsAsItHasRecords(t *testing.T) {
	for _, s := range NewSpans([]time.Duration{10 * time.Second, time.Minute}, time.Second) {
		const now = 1000
		units := map[uint32]bool{}
		for tick := range uint32(now + 1) {
			if s.Keeps(tick, now) {
				units[s.Unit(tick)] = true
			}
		}
		if len(units) != s.Kept() {
			t.Errorf("%s: %d units are kept, want %d", s.Window, len(units), s.Kept())
		}
	}
}

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

// The changes of several origins, each in order, are merged in order.
func TestJoinedSort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		var j Joined
		var want []float64
		for origin := range r.IntN(5) {
			at := r.Float64()
			for range r.IntN(9) {
				at += float64(r.IntN(3))
				want = append(want, at)
				j.changes = append(j.changes, joinedChange{from: at, origin: origin})
			}
		}
		slices.Sort(want)
		j.sort()
		for i, c := range j.changes {
			if c.from != want[i] {
				t.Fatalf("%v, want %v", j.changes, want)
			}
		}
	}
}

// Changes on both sides of a downtime are no time in which the origin received all the time, though their
// ticks are adjacent.
func TestJoinedRunEndsAtADowntime(t *testing.T) {
	before := joinedChange{from: 3, to: 3.4, tick: 8}
	for _, c := range []struct {
		name  string
		after joinedChange
		want  bool
	}{
		{"the next tick", joinedChange{from: 3.4, to: 4.4, tick: 9}, true},
		{"after a downtime", joinedChange{from: 23, to: 24, tick: 9}, false},
		{"a tick later", joinedChange{from: 3.4, to: 4.4, tick: 10}, false},
		{"another origin", joinedChange{from: 3.4, to: 4.4, tick: 9, origin: 1}, false},
	} {
		if got := c.after.follows(&before); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
