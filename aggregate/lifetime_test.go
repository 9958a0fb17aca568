package aggregate

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// on makes the uptimes of a machine's boot.
func on(boot string, up time.Duration) window.Uptime { return window.Uptime{Boot: boot, Up: up} }

// After an outage, lifetimes go on by the machine's uptime, whatever its wall clock says. If the
// machine was booted meanwhile, they go on by the wall clock, unless that cannot be right.
func TestOutages(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	for _, c := range []struct {
		name            string
		before, after   window.Uptime
		wall            time.Duration // what the wall clock has gone on, where it is ahead
		behind          time.Duration // how far it was set back besides
		object, outside bool          // whether an object's series lives on (1h) and an external one (24h)
	}{
		{"at once", on("a", hour), on("a", hour+time.Second), time.Second, 0, true, true},
		{"set ahead by 2h", on("a", hour), on("a", hour+time.Second), 2 * hour, 0, true, true},
		{"set ahead by 25h", on("a", hour), on("a", hour+time.Second), 25 * hour, 0, true, true},
		{"set back by 10m", on("a", hour), on("a", hour+time.Second), time.Second, 10 * time.Minute, true, true},
		{"set back by 1h", on("a", hour), on("a", hour+time.Second), time.Second, hour, true, true},
		{"down for 2h", on("a", hour), on("a", 3*hour), 2 * hour, 0, false, true},
		{"down for 2h, set back by 2h", on("a", hour), on("a", 3*hour), time.Second, 2 * hour, false, true},
		{"down for 25h", on("a", hour), on("a", 26*hour), 25 * hour, 0, false, false},
		{"booted, 2h by the wall clock", on("a", 9*hour), on("b", hour), 2 * hour, 0, false, true},
		{"booted, 25h by the wall clock", on("a", hour), on("b", hour), 25 * hour, 0, false, false},
		{"booted, behind by 1h", on("a", 9*hour), on("b", hour), time.Second, hour, true, true},
		{"booted, decades behind", on("a", 9*hour), on("b", hour), time.Second, 25 * 365 * day, true, true},
		{"booted, far ahead", on("a", 9*hour), on("b", hour), 400 * day, 0, true, true},
		{"boots not told apart, 2h by the wall clock", window.Uptime{}, window.Uptime{}, 2 * hour, 0, false, true},
		{"up for less than it was", on("a", 9*hour), on("a", hour), 2 * hour, 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, disk := newFixture(t), newSaved()
				f.Clock.Uptime = func() window.Uptime { return c.before }
				f.push("a:1|c|#pod:a,ns:ns", "e:1|c")
				disk.flush(f.Table, each)
				disk.setWall(c.behind)
				time.Sleep(c.wall)
				disk.uptime = c.after
				again := disk.restore(t)
				if _, err := again.Objects(podsTotal("a")); (err == nil) != c.object {
					t.Errorf("an object's series: %v, want it to live: %v", err, c.object)
				}
				if _, err := again.External(metric.Query{Expression: metric.ParseExpression("e:total")}); (err == nil) != c.outside {
					t.Errorf("an external series: %v, want it to live: %v", err, c.outside)
				}
			})
		})
	}
}

func podsTotal(name string) metric.Query {
	return metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(name + ":total")}
}

// setWall rewrites the saved clock as if the wall clock had been so far ahead when it was saved.
func (s *saved) setWall(ahead time.Duration) {
	_, n := binary.Uvarint(s.clock[1:])
	wall, m := binary.Varint(s.clock[1+n:])
	rest := s.clock[1+n+m:]
	s.clock = append(binary.AppendVarint(append([]byte(nil), s.clock[:1+n]...), wall+int64(ahead)), rest...)
}

// Stamps of format 1 are Unix seconds. They are read, dated as they were, and written anew with the
// next flush.
func TestStampsOfFormat1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(25 * 365 * 24 * time.Hour) // there was no format 1 in 2000
		f, disk := newFixture(t), newSaved()
		f.push("a:1|c|#pod:a,ns:ns", "b:1|c|#pod:a,ns:ns")
		f.Roll()
		began := time.Now()
		b := f.blocks.at[0].Load()
		b.page.cells[0].Seen.Store(uint32(began.Unix()) - 30*60)
		b.page.cells[1].Seen.Store(uint32(began.Unix()) - 10*60)
		disk.flush(f.Table, each)
		disk.asFormat1()
		time.Sleep(40 * time.Minute)

		again := disk.restore(t)
		again.want("a", `no series of "a" for pods in "ns"; last seen 1h ago, expired after 1h`)
		at := func(f *fixture) string {
			points, err := f.Objects(podsTotal("b"))
			if err != nil {
				return err.Error()
			}
			return points[0].Time.UTC().String()
		}
		want := began.Add(-10 * time.Minute).Truncate(time.Second).UTC().String()
		if got := at(again); got != want {
			t.Errorf("dated %s, want %s", got, want)
		}
		disk.flush(again.Table, never)
		if seen := again.blocks.at[0].Load().page.cells[1].Seen.Load(); len(disk.deltas[0]) == 0 || seen >= window.FirstUnixStamp {
			t.Errorf("stamp %d, %d deltas: it is not written anew", seen, len(disk.deltas[0]))
		}
		if got := at(disk.restore(t)); got != want {
			t.Errorf("after another restart it is dated %s, want %s", got, want)
		}
	})
}

// asFormat1 rewrites the saved clock as format 1 had it.
func (s *saved) asFormat1() {
	d := blob.Decoder{Rest: s.clock[1:]}
	d.Uvarint()
	d.Varint()
	d.Uint64()
	for n := d.Uvarint(); n > 0; n-- {
		d.Uvarint()
	}
	s.clock = append([]byte{1}, s.clock[1:len(s.clock)-len(d.Rest)]...)
}

// A time to live never ends early, and at most a second late, whenever the push comes; then the
// series gives its place back.
func TestATimeToLiveIsExact(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond, 7 * time.Second, time.Hour} {
		for late := time.Duration(0); late < time.Second; late += 210 * time.Millisecond {
			t.Run(fmt.Sprint(ttl, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t).running()
					time.Sleep(3*time.Second + late)
					began := time.Now()
					f.w.Online()
					f.w.Apply(&metric.Sample{Name: []byte("x"), Kind: metric.Gauge, Whole: 1, TTL: ttl})
					f.w.Offline()
					lived, stayed := time.Duration(0), time.Duration(0)
					time.Sleep(ttl - time.Second)
					for time.Since(began) < ttl+3*time.Second {
						if _, err := f.External(metric.Query{Expression: metric.ParseExpression("x")}); err == nil {
							lived = time.Since(began)
						}
						if f.Series() > 0 {
							stayed = time.Since(began)
						}
						time.Sleep(11 * time.Millisecond)
					}
					if early := ttl - lived; early > 11*time.Millisecond || -early > time.Second {
						t.Errorf("lived %s, want %s, or a second more", lived, ttl)
					}
					if stayed > ttl+1300*time.Millisecond {
						t.Errorf("held its place for %s, want %s, and little more", stayed, ttl)
					}
				})
			})
		}
	}
}

// A time to live of a day and more is kept in whole seconds, and rounded up.
func TestLongTimesToLiveAreRoundedUp(t *testing.T) {
	var p page
	for ttl, want := range map[time.Duration]time.Duration{
		24*time.Hour - time.Millisecond: 24*time.Hour - time.Millisecond,
		24 * time.Hour:                  24 * time.Hour,
		24*time.Hour + time.Millisecond: 24*time.Hour + time.Second,
	} {
		p.setTTL(0, ttl)
		if got := ttlDuration(p.ttls[0].Load()); got != want {
			t.Errorf("%s is kept as %s, want %s", ttl, got, want)
		}
	}
}

// The end of one lifetime does not hide a later one from the sweep.
func TestSweepKeepsTheNextEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.w.Online()
		for i, name := range []string{"first", "second", "third"} {
			f.w.Apply(&metric.Sample{Name: []byte(name), Kind: metric.Gauge, TTL: time.Duration(i+1) * time.Minute})
		}
		f.w.Offline()
		f.Roll()
		time.Sleep(5 * time.Second)
		for left := 2; left >= 0; left-- {
			time.Sleep(time.Minute)
			f.sweepEnds(f.Clock.Now(), &pace{time.Now()})
			if n := f.Series(); n != left {
				t.Fatalf("%d series live, want %d", n, left)
			}
		}
	})
}

// An unchanged value has the same time at every read, before the roller met it and after, and after
// a restart.
func TestTheSameValueHasTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t).running(), newSaved()
		at := func(f *fixture, asked string) time.Time {
			points, err := f.External(metric.Query{Expression: metric.ParseExpression(asked)})
			must(t, err)
			return points[0].Time
		}
		for range 40 {
			time.Sleep(137 * time.Millisecond)
			for line, asked := range map[string]string{"g:3|g": "g", "c:1|c": "c:total"} {
				f.push(line)
				first := at(f, asked)
				if age := time.Since(first); age < 0 || age >= window.StampUnit {
					t.Fatalf("%s is dated %s ago", asked, age)
				}
				for range 30 {
					time.Sleep(61 * time.Millisecond)
					if again := at(f, asked); !again.Equal(first) {
						t.Fatalf("%s is dated %s, then %s", asked, first, again)
					}
				}
			}
		}
		first := at(f, "c:total")
		disk.flush(f.Table, each)
		time.Sleep(time.Minute + 300*time.Millisecond)
		if again := at(disk.restore(t), "c:total"); !again.Equal(first) {
			t.Errorf("dated %s, then %s after a restart", first, again)
		}
	})
}
