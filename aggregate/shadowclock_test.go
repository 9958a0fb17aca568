package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// At is the receiving time that the shadow's clock reads.
func (s *Shadow) At() time.Duration { return s.Table().Clock.Now().At }

// followed starts a test in virtual time with an origin and its shadow.
func followed(t *testing.T, test func(f *fixture, shadow *follower)) {
	start(t, func(f *fixture) { test(f, newFollower(f.t, f)) })
}

// A shadow's clock stands between two messages, so the newest values are never missing in a window.
// LetRun makes it go on until the next message.
func TestShadowClock(t *testing.T) {
	followed(t, func(f *fixture, shadow *follower) {
		for range 20 {
			f.push("c:1|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
			shadow.follow(false)
		}
		at := shadow.At()
		if at != f.Clock.Now().At {
			t.Fatalf("%s, the origin is at %s", at, f.Clock.Now().At)
		}
		want := shadow.reader().ask("c:count:10s")
		time.Sleep(30 * time.Second)
		shadow.reader().want("c:count:10s", want)
		if shadow.At() != at {
			t.Errorf("at %s without a message, want %s", shadow.At(), at)
		}
		shadow.LetRun(time.Now().Add(-4 * time.Second))
		if shadow.At() != at+4*time.Second {
			t.Errorf("at %s, want 4s after %s", shadow.At(), at)
		}
		time.Sleep(10 * time.Second)
		shadow.reader().want("c:count:10s", "a=0")
		shadow.advance()
		time.Sleep(time.Second)
		if want := f.Clock.Now().At - time.Second; shadow.At() != want {
			t.Errorf("after a message at %s, want %s", shadow.At(), want)
		}
	})
}

// An origin that restarts may go on from a moment before: its shadow waits for it.
func TestShadowClockNeverGoesBack(t *testing.T) {
	followed(t, func(f *fixture, shadow *follower) {
		earlier := f.AppendClock(nil)
		time.Sleep(500 * time.Millisecond)
		shadow.advance()
		at := shadow.At()
		shadow.must(shadow.Advance(earlier, 0))
		if shadow.At() != at {
			t.Errorf("at %s, want %s", shadow.At(), at)
		}
		time.Sleep(2 * time.Minute)
		shadow.advance()
		shadow.must(shadow.Advance(earlier, 0))
		if shadow.At() != at-500*time.Millisecond {
			t.Errorf("two minutes back: at %s, want %s", shadow.At(), at-500*time.Millisecond)
		}
	})
}

// Dates are the origin's, plus the correction.
func TestShadowCorrectsDates(t *testing.T) {
	followed(t, func(f *fixture, shadow *follower) {
		f.push("g:1|g|#pod:a,ns:ns")
		shadow.follow(false)
		date := func(from *fixture) time.Time {
			points, err := from.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("g")})
			shadow.must(err)
			return points[0].Time
		}
		want := date(f)
		if got := date(shadow.reader()); !got.Equal(want) {
			t.Errorf("%s, the origin says %s", got, want)
		}
		shadow.must(shadow.Advance(f.AppendClock(nil), -time.Hour))
		if got := date(shadow.reader()); !got.Equal(want.Add(-time.Hour)) {
			t.Errorf("corrected: %s, want an hour before %s", got, want)
		}
	})
}

// Only the origin removes a series. Meanwhile the shadow serves none whose lifetime has ended.
func TestShadowLifetimes(t *testing.T) {
	followed(t, func(f *fixture, shadow *follower) {
		brief := sample("c:1|c|#pod:a,ns:ns")
		brief.TTL = 5 * time.Second
		f.apply(brief)
		shadow.follow(false)
		shadow.reader().want("c:total", "a=1")
		if shadow.Expired() {
			t.Error("expired at once")
		}
		shadow.LetRun(time.Now())
		time.Sleep(6 * time.Second)
		shadow.reader().want("c:total", `no series of "c" for pods in "ns"; last seen 6s ago, expired after 5s`)
		if shadow.Series() != 1 || !shadow.Expired() {
			t.Errorf("%d series, expired %v", shadow.Series(), shadow.Expired())
		}
		shadow.follow(false)
		if shadow.Series() != 0 {
			t.Errorf("%d series after the origin removed it", shadow.Series())
		}
	})
}

// An origin with another shortest window has other ticks. It is an error that names both.
func TestShadowOfOtherTicks(t *testing.T) {
	c := DefaultConfig()
	c.Windows = []time.Duration{5 * time.Second, 5 * time.Minute}
	s := NewShadow(c, quiet())
	err := s.Begin(newFixture(t).AppendClock(nil))
	if want := "windows differ: the shortest is 10s at the origin, 5s here"; !errors.Is(err, ErrWindows) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// While replicas get other windows, one after the other, windows that both keep stay right.
func TestShadowOfOtherWindows(t *testing.T) {
	for _, here := range [][]time.Duration{{10 * time.Second, time.Minute, 5 * time.Minute}, {10 * time.Second, 5 * time.Minute}, {10 * time.Second}} {
		start(t, func(f *fixture) {
			c := DefaultConfig()
			c.Windows = here
			shadow := &follower{NewShadow(c, quiet()), t, f}
			shadow.must(shadow.Begin(f.AppendClock(nil)))
			for i := range 90 {
				f.push("c:2|c|#pod:a,ns:ns", fmt.Sprintf("t:%d|ms|#pod:a,ns:ns", i), fmt.Sprintf("s:%d|s|#pod:a,ns:ns", i), fmt.Sprintf("g:%d|g|#pod:a,ns:ns", i))
				time.Sleep(time.Second)
				shadow.follow(false)
			}
			m := NewMerged(New(c, describeByPod, quiet()))
			m.SetShadows([]*Shadow{shadow.Shadow})
			ask := func(asked string) string {
				points, err := m.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression(asked)})
				if err != nil {
					return err.Error()
				}
				return "a=" + print(points[0].Value)
			}
			for _, asked := range []string{"c:total", "c:count:10s", "c:rate:10s", "t:count:10s", "t:p95:10s", "t:sum:10s", "s:unique:10s", "g:max:10s", "g"} {
				if got, want := ask(asked), f.ask(asked); got != want {
					t.Errorf("windows %v: %s: %s, want %s", here, asked, got, want)
				}
			}
			if got := ask("c:count:5m"); len(here) > 1 && got != "a=180" {
				t.Errorf("windows %v: c:count:5m: %s, want all that the history still has", here, got)
			}
		})
	}
}

// Of two series of one identity, or of a metric in two kinds, the younger one is served, whichever
// block came first; and the older one, once the younger is gone.
func TestShadowServesTheYounger(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("c:1|c|#pod:a,ns:ns", "m:5|g|#pod:a,ns:ns", "m:5|g|#pod:a,ns:ns,k:1")
		old := f.AppendDelta(nil, 0)
		time.Sleep(3 * time.Second)
		other := newFixture(t)
		time.Sleep(f.Clock.Now().At - other.Clock.Now().At)
		other.push("c:2|c|#pod:a,ns:ns", "m:7|c|#pod:a,ns:ns")
		young := other.AppendDelta(nil, 0)
		blobs := [][]byte{old, young}
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			shadow := newFollower(t, f)
			for _, block := range order {
				shadow.must(shadow.ApplyDelta(block, blobs[block]))
				shadow.sound(t)
			}
			shadow.reader().want("c:total", "a=2")
			shadow.reader().want("m:total", "a=7")
			if shadow.Series() != 2 || len(shadow.waiting) != 3 {
				t.Errorf("%d series, %d waiting", shadow.Series(), len(shadow.waiting))
			}
			f.push("c:3|c|#pod:a,ns:ns")
			shadow.must(shadow.ApplyDelta(0, f.AppendDelta(nil, 0)))
			shadow.reader().want("c:total", "a=2")
			shadow.must(shadow.ReplaceBlock(1, nil, nil))
			shadow.sound(t)
			shadow.reader().want("c:total", f.ask("c:total"))
			shadow.reader().want("m", "a=10")
			if shadow.Series() != 3 || len(shadow.waiting) != 0 {
				t.Errorf("%d series, %d waiting", shadow.Series(), len(shadow.waiting))
			}
			shadow.End()
		}
	})
}

// A delta that is older than the state changes nothing.
func TestShadowIgnoresAnOlderDelta(t *testing.T) {
	followed(t, func(f *fixture, shadow *follower) {
		lines := []string{"c:1|c|#pod:a,ns:ns", "g:1|g|#pod:a,ns:ns", "t:1|ms|#pod:a,ns:ns", "c:0.5|c|#pod:b,ns:ns"}
		f.push(lines...)
		shadow.follow(false)
		time.Sleep(2 * time.Second)
		f.push(lines...)
		older := f.AppendDelta(nil, 0)
		time.Sleep(2 * time.Second)
		f.push(lines...)
		f.push("g:7|g|#pod:a,ns:ns")
		f.AppendDelta(nil, 0)
		shadow.copyAll()
		want := shadow.reader().everything()
		shadow.must(shadow.ApplyDelta(0, older))
		if got := shadow.reader().everything(); got != want {
			t.Errorf("before\n%s\nafter an older delta\n%s", want, got)
		}
	})
}

// MaxSeries bounds a shadow. The series that it holds stay right.
func TestShadowIsBounded(t *testing.T) {
	start(t, func(f *fixture) {
		c := DefaultConfig()
		c.MaxSeries = 10
		shadow := &follower{NewShadow(c, quiet()), t, f}
		shadow.must(shadow.Begin(f.AppendClock(nil)))
		for range 3 {
			for i := range 40 {
				f.push(fmt.Sprintf("g:%d|g|#pod:p%02d,ns:ns", i, i), fmt.Sprintf("c:%d|c|#pod:p%02d,ns:ns", i, i))
			}
			time.Sleep(time.Second)
			shadow.follow(false)
		}
		if shadow.Series() != 10 || shadow.refused != 70 {
			t.Errorf("%d series, %d rejected", shadow.Series(), shadow.refused)
		}
		shadow.reader().want("c:total", "p00=0 p01=3 p02=6 p03=9 p04=12")
		if err := shadow.ApplyDelta(1000, nil); err == nil {
			t.Error("block 1000 of a shadow of 10 series")
		}
	})
}

// Histories of a shadow shrink as those of its origin do.
func TestShadowShrinks(t *testing.T) {
	followed(t, func(f *fixture, shadow *follower) {
		for range 70 {
			for i := range 50 {
				f.push(fmt.Sprintf("c:1|c|#pod:p%d,ns:ns", i), fmt.Sprintf("t:%d|ms|#pod:p%d,ns:ns", i, i), fmt.Sprintf("s:%d|s|#pod:p%d,ns:ns", time.Now().Unix(), i))
			}
			time.Sleep(time.Second)
			shadow.follow(false)
		}
		logs, _ := shadow.Table().Logs.Used()
		bodies := shadow.Table().BodyBytes.Load()
		for range 300 {
			time.Sleep(time.Second)
			shadow.follow(false)
		}
		left, _ := shadow.Table().Logs.Used()
		origin, _ := f.Logs.Used()
		if logs < 100 || left != origin {
			t.Errorf("%d logs while active, %d at rest; the origin has %d", logs, left, origin)
		}
		if own, there := shadow.Table().BodyBytes.Load(), f.BodyBytes.Load(); own > bodies*2/3 || own > there*5/4 {
			t.Errorf("%d bytes of bodies while active, %d at rest; the origin has %d", bodies, own, there)
		}
	})
}

// Format 3 has the tick of the last pause instead of all pauses.
func TestClockOfFormatThree(t *testing.T) {
	start(t, func(f *fixture) {
		r := newReplica(t)
		clock := r.AppendClock(nil)
		clock[0] = resumedAlone
		at := r.Clock.Now().At
		clock = binary.AppendUvarint(clock[:len(clock)-1], uint64(at/r.Clock.Tick))
		saved, err := readClock(clock)
		if want := (window.Pause{At: at / r.Clock.Tick * r.Clock.Tick}); err != nil || len(saved.pauses) != 1 || saved.pauses[0] != want {
			t.Errorf("%v, %v, want %v", saved.pauses, err, want)
		}
		newFollower(t, r)
		must(t, New(DefaultConfig(), describeByPod, quiet()).RestoreClock(clock))
	})
}
