package aggregate

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// exported returns all live series of an export as text, sorted.
func exported(m *Merged, alive func(metric.Object) bool) string {
	var all []string
	e := m.NewExport(alive)
	for _, f := range m.Families(func(*metric.Family) bool { return true }) {
		for _, k := range metric.Kinds() {
			if !f.Kinds.Has(k) {
				continue
			}
			e.Series(&f, k, func(s *metric.LiveSeries) bool {
				text := fmt.Sprintf("%s %s %s%s", k, s.Object, f.Name, s.Labels)
				if k == metric.Timer {
					text += fmt.Sprintf(" n=%v sum=%v", s.Summary.Count, s.Summary.Sum)
					for _, q := range s.Summary.Quantiles {
						text += fmt.Sprintf(" q%v=%.3g", q.Q, q.Value)
					}
				} else {
					text += " " + print(s.Value)
				}
				all = append(all, text)
				return true
			})
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func wantExport(t *testing.T, m *Merged, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := exported(m, nil); got != strings.Join(want, "\n") {
		t.Errorf("exported:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

func TestExportHasEverySeries(t *testing.T) {
	start(t, func(f *fixture) {
		m := NewMerged(f.Table)
		f.pushReadings()
		f.push("c:2|c|#pod:a,ns:ns,code:200", "c:0.5|c|#pod:b,ns:ns", "jobs:3|c|#ns:shop,queue:mail", "jobs:4|c|#queue:mail",
			"mixed:1|c|#pod:a,ns:ns", "mixed:7|g|#pod:b,ns:ns")
		want := []string{
			"counter pods/a in ns c{} 40", "counter pods/a in ns c{code=200} 2", "counter pods/b in ns c{} 0.5",
			"gauge pods/a in ns g{} 10", "set pods/a in ns s{} 2",
			"counter external in shop jobs{queue=mail} 3", "counter external jobs{queue=mail} 4",
			"counter pods/a in ns mixed{} 1", "gauge pods/b in ns mixed{} 7",
		}
		wantExport(t, m, append(want, "timer pods/a in ns t{} n=4 sum=100 q0.5=19.9 q0.9=40 q0.99=40")...)
		time.Sleep(10 * time.Minute) // windows are empty, totals stay
		want[4] = "set pods/a in ns s{} 0"
		wantExport(t, m, append(want, "timer pods/a in ns t{} n=4 sum=100 q0.5=NaN q0.9=NaN q0.99=NaN")...)
		f.push("t:-1|ms|#pod:a,ns:ns", "t:1.5|ms|@0.5|#pod:a,ns:ns")
		wantExport(t, m, append(want, "timer pods/a in ns t{} n=7 sum=102 q0.5=1.5 q0.9=1.5 q0.99=1.5")...)
	})
}

func TestExportOfLivingObjects(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("c:1|c|#pod:a,ns:ns", "c:2|c|#pod:b,ns:ns", "jobs:4|c")
		got := exported(NewMerged(f.Table), func(o metric.Object) bool { return o.Name != "b" })
		if want := "counter external jobs{} 4\ncounter pods/a in ns c{} 1"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

// The series of several origins are merged, and their totals add up.
func TestExportOfReplicas(t *testing.T) {
	replicated(t, 3, func(r *replicas) {
		for i, f := range r.tables {
			f.push("c:1|c|#pod:a,ns:ns", fmt.Sprintf("c:5|c|#pod:a,ns:ns,only:%d", i), "t:10|ms|#pod:a,ns:ns", "s:x|s|#pod:a,ns:ns",
				fmt.Sprintf("g:%d|g|#pod:a,ns:ns", i))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		wantExport(t, r.Merged, "counter pods/a in ns c{} 3", "counter pods/a in ns c{only=0} 5", "counter pods/a in ns c{only=1} 5",
			"counter pods/a in ns c{only=2} 5", "gauge pods/a in ns g{} 2", "set pods/a in ns s{} 1",
			"timer pods/a in ns t{} n=3 sum=30 q0.5=10 q0.9=10 q0.99=10")
	})
}

// A timer's sum survives a restart as its count does, and a state without sums is read.
func TestSumOfATimerIsSaved(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("t:10|ms|#pod:a,ns:ns", "t:20|ms|#pod:a,ns:ns")
		time.Sleep(5 * time.Minute)
		f.push("t:12|ms|#pod:a,ns:ns")
		f.Roll()
		s := newSaved()
		s.flush(f.Table, never)
		again := s.restore(t)
		wantExport(t, NewMerged(again.Table), "timer pods/a in ns t{} n=3 sum=42 q0.5=12 q0.9=12 q0.99=12")
		again.push("t:8|ms|#pod:a,ns:ns")
		wantExport(t, NewMerged(again.Table), "timer pods/a in ns t{} n=4 sum=50 q0.5=8 q0.9=12 q0.99=12")
	})
}

// A pushed histogram without a sum makes the sum unknown, not wrong.
func TestUnknownSumOfATimer(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("t:10|ms|#pod:a,ns:ns")
		f.apply(pushOf(metric.Merge, summary(2, nan)))
		if got := exported(NewMerged(f.Table), nil); !strings.Contains(got, "n=3 sum=NaN") {
			t.Error(got)
		}
	})
}

// Of several replicas, one is the first: the first by name of those that are heard.
func TestFirstReplica(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		if !r.First() {
			t.Error("the first by name is not the first")
		}
		r.SetRank(1)
		if r.First() {
			t.Error("the second by name is the first")
		}
		r.peers[0].kill()
		time.Sleep(5 * time.Second)
		if !r.First() {
			t.Error("nobody follows a first that died")
		}
	})
}

// buckets returns the buckets of a timer as "index=count", and their sum.
func buckets(m *Merged, name string) (text string) {
	for _, f := range m.Families(func(f *metric.Family) bool { return f.Name == name }) {
		m.NewExport(nil).Series(&f, metric.Timer, func(s *metric.LiveSeries) bool {
			b := &s.Buckets
			text = fmt.Sprint("sum=", b.Sum, " zero=", b.Zero)
			for _, bucket := range b.Negative {
				text += fmt.Sprintf(" -%d=%v", bucket.Index, bucket.Count)
			}
			for _, bucket := range b.Positive {
				text += fmt.Sprintf(" %d=%v", bucket.Index, bucket.Count)
			}
			return true
		})
	}
	return text
}

func withHistograms(f *fixture) *fixture {
	f.Histograms = true
	return f
}

// Buckets count all observations since the birth, also of a state that was restored.
func TestBucketsOfATimer(t *testing.T) {
	start(t, func(f *fixture) {
		withHistograms(f)
		for _, v := range []string{"0", "1.05", "1.06", "-3", "1000", "12|ms|@0.3"} {
			if !strings.Contains(v, "|") {
				v += "|ms"
			}
			f.push("t:" + v + "|#pod:a,ns:ns")
		}
		time.Sleep(5 * time.Minute)
		want := "sum=1039.11 zero=1 -13=1 1=2 29=3.3333330154418945 80=1"
		if got := buckets(NewMerged(f.Table), "t"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		s := newSaved()
		s.flush(f.Table, never)
		table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
		table.Histograms = true
		must(t, s.into(table))
		again := &fixture{Table: table, t: t, w: table.NewWriter()}
		again.push("t:1.05|ms|#pod:a,ns:ns")
		if got, want := buckets(NewMerged(again.Table), "t"), strings.NewReplacer("1039.11", "1040.1599999999999", " 1=2", " 1=3").Replace(want); got != want {
			t.Errorf("restored: got  %s\nwant %s", got, want)
		}
		if without := s.restore(t); buckets(NewMerged(without.Table), "t") != "sum=0 zero=0" {
			t.Error("buckets are kept although they are off")
		}
	})
}

// The buckets of several origins add up.
func TestBucketsOfReplicas(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		withHistograms(r.tables[0])
		withHistograms(r.tables[1])
		r.peers[0].Table().Histograms = true
		r.tables[0].push("t:1|ms|#pod:a,ns:ns", "t:100|ms|#pod:a,ns:ns")
		r.tables[1].push("t:1|ms|#pod:a,ns:ns")
		time.Sleep(2 * time.Second)
		if got, want := buckets(r.Merged, "t"), "sum=102 zero=0 0=2 54=1"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// A pushed histogram's buckets are spread over the timer's.
func TestBucketsOfAPushedHistogram(t *testing.T) {
	start(t, func(f *fixture) {
		withHistograms(f)
		for range 2 {
			f.apply(pushOf(metric.Merge, histogram([]float64{1, 2}, []float64{0, 8, 0}, 12)))
		}
		got := buckets(NewMerged(f.Table), "t")
		if !strings.HasPrefix(got, "sum=24 zero=0") || !strings.Contains(got, " 8=") {
			t.Error(got)
		}
	})
}

// startsOf returns when the totals of counters and timers began, relative to a time, and whether they
// have fallen.
func startsOf(m *Merged, since time.Time) string {
	var all []string
	e := m.NewExport(nil)
	for _, f := range m.Families(func(*metric.Family) bool { return true }) {
		for _, k := range []metric.Kind{metric.Counter, metric.Timer} {
			if f.Kinds.Has(k) {
				e.Series(&f, k, func(s *metric.LiveSeries) bool {
					text := fmt.Sprint(f.Name, " ", s.Start.Sub(since))
					if s.Fell {
						text += " fell"
					}
					all = append(all, text)
					return true
				})
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A total began with its series, and says so after restarts and whatever the clock does. A series that
// is born again begins again. Once a counter has fallen, that stays known.
func TestStartsOfTotals(t *testing.T) {
	for name, checkpoint := range map[string]func(int) bool{"deltas": never, "checkpoints": each} {
		t.Run(name, func(t *testing.T) {
			start(t, func(f *fixture) {
				began, s := time.Now().Truncate(time.Second), newSaved()
				check := func(when, want string) {
					t.Helper()
					if got := startsOf(NewMerged(f.Table), began); got != want {
						t.Errorf("%s: %s, want %s", when, got, want)
					}
				}
				restart := func() {
					s.flush(f.Table, checkpoint)
					time.Sleep(time.Hour)
					f = s.restore(t)
				}
				f.push("c:3|c", "t:10|ms")
				time.Sleep(10 * time.Second)
				f.push("c:1|c", "d:1|c", "t:10|ms", "g:1|g")
				check("first", "c 0s, d 10s, t 0s")
				restart()
				check("restarted", "c 0s, d 10s, t 0s")
				s.setWall(10 * time.Minute) // the clock was wrong until now, or is
				f = s.restore(t)
				f.Clock.FollowWall()
				check("the clock was set", "c 0s, d 10s, t 0s")

				f.push("c:5|c", "d:9|c")
				check("all rise", "c 0s, d 10s, t 0s")
				f.push("c:-1|c", "d:-0.5|c") // before a roll has seen that they rose
				check("they fell", "c 0s fell, d 10s fell, t 0s")
				f.push("c:7|c", "d:9.5|c")
				restart()
				check("restarted", "c 0s fell, d 10s fell, t 0s")

				f.Delete(metric.Query{Object: "*", Expression: metric.Expression{Name: "d"}})
				f.push("d:1|c")
				reborn := time.Since(began).Truncate(time.Second)
				check("born again", fmt.Sprintf("c 0s fell, d %v, t 0s", reborn))
			})
		})
	}
}

// A client's running total began when the client says, and again when the client restarts. Of several
// origins, the earliest birth and the newest start count.
func TestStartsOfRunningTotals(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		began := time.Now().Truncate(time.Second)
		push := func(origin int, whole float64, started time.Duration) {
			s := total("r", whole)
			s.Started = began.Add(started).UnixNano()
			r.tables[origin].apply(s)
			time.Sleep(2 * time.Second)
		}
		check := func(when, want string) {
			t.Helper()
			if got := startsOf(r.Merged, began); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		r.tables[0].push("c:1|c")
		time.Sleep(3 * time.Second)
		r.tables[1].push("c:1|c", "d:-1|c")
		push(0, 100, -time.Minute)
		check("first", "c 0s, d 3s fell, r -1m0s")
		push(1, 110, -time.Minute)
		check("at another origin", "c 0s, d 3s fell, r -1m0s")
		push(1, 5, time.Second)
		check("the client restarted", "c 0s, d 3s fell, r 1s")
	})
}
