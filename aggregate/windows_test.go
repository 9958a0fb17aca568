package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A constant stream reads as constant, whatever its interval up to a third of the window, and count
// as unbiased as rate.
func TestAConstantStreamReadsAsConstant(t *testing.T) {
	const perSecond = 100
	combination := 0
	for _, c := range []struct{ window, interval time.Duration }{
		{10 * time.Second, 40 * time.Millisecond},
		{10 * time.Second, time.Second},
		{10 * time.Second, 1300 * time.Millisecond},
		{10 * time.Second, 1700 * time.Millisecond},
		{10 * time.Second, 2 * time.Second},
		{10 * time.Second, 2500 * time.Millisecond},
		{10 * time.Second, 3 * time.Second},
		{10 * time.Second, 3300 * time.Millisecond},
		{time.Minute, 40 * time.Millisecond},
		{time.Minute, 500 * time.Millisecond},
		{time.Minute, time.Second},
		{time.Minute, 1500 * time.Millisecond},
		{time.Minute, 5 * time.Second},
		{time.Minute, 7 * time.Second},
		{time.Minute, 10 * time.Second},
		{time.Minute, 13 * time.Second},
		{time.Minute, 15400 * time.Millisecond},
		{time.Minute, 17 * time.Second},
		{time.Minute, 20 * time.Second},
	} {
		for _, kind := range []string{"counter", "timer"} {
			if combination++; combination%size(1, 1, 7) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s every %s over %s", kind, c.interval, c.window), func(t *testing.T) {
				start(t, func(f *fixture) {
					f.constant(kind, perSecond, c.interval, c.window)
				})
			})
		}
	}
}

// constant pushes so much a second at an interval, and reads all the time once the window is full. The interval
// is known after five pushes and a minute; until then a push more or less is in the window.
func (f *fixture) constant(kind string, perSecond float64, interval, window time.Duration) {
	line := fmt.Sprintf("x:%v|c|#pod:a,ns:ns", perSecond*interval.Seconds())
	if kind == "timer" {
		line = fmt.Sprintf("x:2|ms|@%v|#pod:a,ns:ns", 1/(perSecond*interval.Seconds()))
	}
	name := metric.FormatWindow(window)
	f.push("other:1|c|#pod:a,ns:ns")
	time.Sleep(time.Second)
	begun, full := time.Now(), window+time.Second
	steady := max(time.Minute, 4*interval) + time.Second
	for next := begun; time.Since(begun) < steady+3*window; {
		f.push(line)
		for next = next.Add(interval); time.Until(next) > 0; time.Sleep(min(time.Until(next), 730*time.Millisecond)) {
			if time.Since(begun) < full {
				continue
			}
			tolerance := 0.02
			if interval <= time.Second || time.Since(begun) < steady { // a push more or less, while it comes or leaves
				tolerance += interval.Seconds() / window.Seconds()
			}
			f.near("x:rate:"+name, perSecond, tolerance)
			f.near("x:count:"+name, perSecond*window.Seconds(), tolerance)
			if kind == "timer" {
				f.near("x:sum:"+name, 2*perSecond*window.Seconds(), tolerance)
			}
			if f.t.Failed() {
				return
			}
		}
	}
}

func (f *fixture) near(asked string, want, tolerance float64) {
	f.t.Helper()
	points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression(asked)})
	if err != nil {
		f.t.Errorf("%s: %v", asked, err)
		return
	}
	if got := points[0].Value.Float64(); math.Abs(got-want) > want*tolerance {
		f.t.Errorf("%s reads %v, want %v", asked, got, want)
	}
}

// Clients sleep inexactly, and a restart of the server is no change of their rate.
func TestAConstantStreamWithJitterAndARestart(t *testing.T) {
	start(t, func(f *fixture) {
		r, disk := rand.New(rand.NewPCG(1, 2)), newSaved()
		for i := range 40 {
			if i == 20 {
				time.Sleep(4 * time.Second)
				disk.flush(f.Table, each)
				time.Sleep(3 * time.Second) // down
				f = disk.restore(f.t.(*testing.T)).running()
				time.Sleep(3 * time.Second)
			}
			f.push("x:1000|c|#pod:a,ns:ns")
			if i > 8 {
				f.near("x:rate:1m", 100, 0.03)
			}
			if i != 19 {
				time.Sleep(10*time.Second + time.Duration(r.IntN(400)-200)*time.Millisecond)
			}
		}
	})
}

// The time of a restore, here 12 s, is left out of windows: rates read the same in each second after it.
func TestARestoreIsPartOfTheOutage(t *testing.T) {
	start(t, func(f *fixture) {
		disk := newSaved()
		stream := func(pushes int) {
			for range pushes {
				f.push("x:10|c|#pod:a,ns:ns")
				time.Sleep(100 * time.Millisecond)
			}
		}
		stream(900)
		disk.flush(f.Table, each)
		disk.takes = 4 * time.Second
		life := f.Lifetime()
		time.Sleep(20 * time.Second) // down
		f = disk.restore(f.t.(*testing.T)).running()
		for range 20 {
			stream(10)
			f.near("x:rate:1m", 100, 0.02)
			f.near("x:rate:10s", 100, 0.05)
		}
		if pauses := f.Clock.Pauses(); len(pauses) != 1 || pauses[0].Down != 32*time.Second {
			t.Errorf("pauses %v, want one of 32 s", pauses)
		}
		if lived := f.Lifetime() - life; lived != 52*time.Second {
			t.Errorf("lifetimes have gone on for %v, want 52 s", lived)
		}
	})
}

// A gauge's minimum, maximum and mean see every value that stood for a tick, in every window:
// against a model.
func TestGaugeWindowsSeeEveryValue(t *testing.T) {
	for seed := range uint64(size(30, 8, 3)) {
		start(t, func(f *fixture) {
			r := rand.New(rand.NewPCG(seed, 9))
			type set struct {
				at    time.Time
				value float64
			}
			var all []set
			every := time.Duration(1+r.IntN(12)) * time.Second
			for begun := time.Now(); time.Since(begun) < 3*time.Minute; time.Sleep(every) {
				v := float64(r.IntN(1_000_000)) / 1000
				f.push(fmt.Sprintf("g:%v|g|#pod:a,ns:ns", v))
				all = append(all, set{time.Now(), v})
				if len(all) < 3 || time.Since(begun) < time.Minute+every {
					continue
				}
				time.Sleep(400 * time.Millisecond)
				extremes := map[time.Duration][2]float64{}
				for _, w := range f.Windows() {
					low, high, weighted := math.Inf(1), math.Inf(-1), 0.0
					for i, s := range all {
						until := time.Now()
						if i+1 < len(all) {
							until = all[i+1].at
						}
						from := s.at
						if begin := time.Now().Add(-w); from.Before(begin) {
							from = begin
						}
						if stood := until.Sub(from); stood > 0 {
							weighted += s.value * stood.Seconds()
							if stood > 600*time.Millisecond || i+1 == len(all) { // what has half left the window may be in it or not
								low, high = min(low, s.value), max(high, s.value)
							}
						}
					}
					name := metric.FormatWindow(w)
					ask := func(stat string) float64 {
						return f.value("g:" + stat + ":" + name)
					}
					if got := ask("min"); got > low {
						t.Errorf("seed %d: min:%s %v, want %v", seed, name, got, low)
					}
					if got := ask("max"); got < high {
						t.Errorf("seed %d: max:%s %v, want %v", seed, name, got, high)
					}
					// Where in its tick a gauge changed is not known: half a tick for each change,
					// of up to a thousand.
					unknown := min(2, 0.5*(1+math.Ceil(w.Seconds()/every.Seconds())))
					if got, want := ask("mean"), weighted/w.Seconds(); math.Abs(got-want) > 1000*unknown/w.Seconds() {
						t.Errorf("seed %d: mean:%s %v, want %v", seed, name, got, want)
					}
					extremes[w] = [2]float64{ask("min"), ask("max")}
				}
				short, long := extremes[10*time.Second], extremes[time.Minute]
				if long[0] > short[0] || long[1] < short[1] {
					t.Errorf("seed %d: extremes over 1m %v do not contain those over 10s %v", seed, long, short)
				}
			}
		})
	}
}

// A gauge that is set to what it was costs no memory, and stands all the while.
func TestAGaugeThatStandsKeepsNoNotes(t *testing.T) {
	start(t, func(f *fixture) {
		for range 90 {
			f.push("g:5|g|#pod:a,ns:ns")
			time.Sleep(time.Second)
		}
		f.want("g:mean:1m", "a=5")
		f.want("g:min:10s", "a=5")
		if n, _ := f.Logs.Used(); n != 0 {
			t.Errorf("%d logs", n)
		}
	})
}

// Counters of windows of an hour remember in steps of 2 %: their logs stay small, and their sums
// exact.
func TestLongWindowsAreKeptInSteps(t *testing.T) {
	start(t, func(f *fixture) {
		c := DefaultConfig()
		c.Windows = []time.Duration{10 * time.Second, time.Minute, time.Hour}
		f.Table = New(c, describeByPod, quiet())
		f.w = f.NewWriter()
		f.running()
		time.Sleep(123 * time.Millisecond) // off the ticks, as in start
		for range 2 * 3600 {
			f.push("x:10|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
		}
		f.near("x:rate:10s", 10, 0.12)
		f.near("x:rate:1m", 10, 0.02)
		f.near("x:rate:1h", 10, 0.02)
		f.want("x:total", "a=72000")
		if _, bytes := f.Logs.Used(); bytes > 2048 {
			t.Errorf("%d bytes of notes", bytes)
		}
	})
}

// Samples that a client dates into the past count then: compared with the sums of the samples in
// each window.
func TestDatedSamplesCountThen(t *testing.T) {
	for _, kind := range []string{"c", "s", "ms"} {
		for seed := range uint64(size(20, 6, 2)) {
			start(t, func(f *fixture) {
				r := rand.New(rand.NewPCG(seed, 3))
				type came struct{ at time.Time }
				var all []came
				f.push("x:1|" + kind + "|#pod:a,ns:ns")
				all = append(all, came{time.Now()})
				for i := range 120 {
					time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
					at, line := time.Now(), fmt.Sprintf("x:1|%s|#pod:a,ns:ns", kind)
					if kind == "s" {
						line = fmt.Sprintf("x:%d|s|#pod:a,ns:ns", i+10)
					}
					if r.IntN(2) == 0 {
						at = at.Add(-time.Duration(2+r.IntN(90)) * time.Second)
						line += fmt.Sprintf("|T%d", at.Unix())
					}
					f.push(line)
					all = append(all, came{at})
					for _, w := range f.Windows() {
						least, most := 0.0, 0.0
						for _, c := range all {
							if ago := time.Since(c.at); ago < w-3*time.Second {
								least++
							}
							if time.Since(c.at) < w+3*time.Second {
								most++
							}
						}
						stat := ":count:"
						if kind == "s" {
							stat = ":unique:"
						}
						if got := f.value("x" + stat + metric.FormatWindow(w)); got < least-1 || got > most+1 { // and one for a stream that looks regular
							t.Fatalf("%s, seed %d, %d pushes: %s reads %v, want %v to %v", kind, seed, i, stat+metric.FormatWindow(w), got, least, most)
						}
					}
				}
				checkBalance(t, f)
				if kind == "c" {
					f.want("x:total", "a=121")
				}
			})
		}
	}
}

// pushAged pushes a line at each of some ages, in seconds before the return.
func (f *fixture) pushAged(line string, ages ...float64) {
	f.t.Helper()
	slices.SortFunc(ages, func(a, b float64) int { return int(b*10 - a*10) })
	ages = append(ages, 0)
	for i, age := range ages[:len(ages)-1] {
		f.push(line)
		time.Sleep(time.Duration((age - ages[i+1]) * float64(time.Second)))
	}
}

// Bursts at irregular intervals read as what came in the window: a pause that resembles the one before is
// no push interval.
func TestIrregularBurstsAreNotScaled(t *testing.T) {
	for _, c := range []struct {
		ages []float64
		want string
	}{
		{[]float64{0.7, 22, 38, 54.6, 55.2, 71, 76.5, 82}, "a=150"},
		{[]float64{14, 30, 46, 62, 73.5, 88}, "a=90"},
	} {
		for _, kind := range []string{"30|c", "2|ms|@0.033333333333333333"} {
			t.Run(kind+" "+c.want, func(t *testing.T) {
				start(t, func(f *fixture) {
					f.push("old:1|c|#pod:a,ns:ns", "x:"+kind+"|#pod:a,ns:ns")
					time.Sleep(5 * time.Minute)
					f.pushAged("x:"+kind+"|#pod:a,ns:ns", c.ages...)
					f.want("x:count:1m", c.want)
				})
			})
		}
	}
}

// Whole samples are counted whole, also where the window measures from push to push.
func TestWholeSamplesStayWhole(t *testing.T) {
	for _, kind := range []string{"c", "ms"} {
		t.Run(kind, func(t *testing.T) {
			start(t, func(f *fixture) {
				f.push("x:1|" + kind + "|#pod:a,ns:ns")
				for range 40 {
					for range 7 {
						time.Sleep(1125 * time.Millisecond)
						for _, w := range []string{"10s", "1m"} {
							if v := f.value("x:count:" + w); v != float64(int64(v)) {
								f.t.Fatalf("%s: count:%s reads %v", kind, w, v)
							}
						}
					}
					f.push("x:1|" + kind + "|#pod:a,ns:ns")
				}
			})
		})
	}
}

// labelling decides which label set the next sample of a stream has.
type labelling struct {
	name string
	of   func(random *rand.Rand, age time.Duration, n int) string
}

var labellings = []labelling{
	{"of 30 codes", func(random *rand.Rand, _ time.Duration, _ int) string {
		return fmt.Sprint(int(30 * math.Pow(random.Float64(), 3))) // most are rare
	}},
	{"of a new version", func(_ *rand.Rand, age time.Duration, _ int) string { return fmt.Sprint(age > 75*time.Second) }},
	{"of jobs", func(_ *rand.Rand, _ time.Duration, n int) string { return fmt.Sprint(n / 5) }},
}

// A rate doesn't depend on the label sets that its samples are split into: it is the count of the
// window over the time since the object was first heard of, for each object of a list, for a roll-up
// of pods, and for the sum over the label sets of an external metric.
func TestARateDoesNotDependOnLabelSets(t *testing.T) {
	for _, by := range labellings {
		for _, kind := range []string{"c", "ms"} {
			for origins := range 2 {
				if testing.Short() && (kind == "ms" || origins == 0) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %d origins", by.name, kind, origins+1), func(t *testing.T) {
					replicated(t, origins+1, func(r *replicas) { r.splitStreams(by, kind) })
				})
			}
		}
	}
}

// splitStreams pushes two streams of two pods, the second a half minute later, and compares.
func (r *replicas) splitStreams(by labelling, kind string) {
	random := rand.New(rand.NewPCG(1, 2))
	const later = 30 * time.Second
	begun, next := time.Now(), 5*time.Second
	heard := map[string][]time.Time{} // by pod
	for n := 0; time.Since(begun) < 150*time.Second; n++ {
		pod := "a"
		if time.Since(begun) > later && n%2 == 0 {
			pod = "b"
		}
		labels := by.of(random, time.Since(begun), n)
		to := random.IntN(len(r.tables))
		for _, object := range []string{"pod:" + pod + ",ns:ns", "ns:ns,of:" + pod} {
			r.push(to, fmt.Sprintf("x:1|%s|#%s,code:%s", kind, object, labels))
		}
		heard[pod] = append(heard[pod], time.Now())
		time.Sleep(time.Duration(20+random.IntN(160)) * time.Millisecond)
		if time.Since(begun) > next {
			next += 5 * time.Second
			time.Sleep(700 * time.Millisecond) // others have told
			synctest.Wait()
			r.compareRates(heard)
		}
	}
}

// rateOf is the number of moments in the last minute over the age of the first, which is at least ten
// seconds.
func rateOf(all []time.Time) float64 {
	n := 0.0
	for _, at := range all {
		if time.Since(at) <= time.Minute {
			n++
		}
	}
	return n / min(max(time.Since(all[0]), 10*time.Second), time.Minute).Seconds()
}

func (r *replicas) compareRates(heard map[string][]time.Time) {
	r.t.Helper()
	near := func(what string, points []metric.Point, err error, want float64, youngest time.Duration) {
		r.t.Helper()
		got := 0.0
		for _, p := range points {
			got += p.Value.Float64()
		}
		tolerance := 0.02 + float64(time.Second)/float64(youngest) // an age is known to a tick
		if err != nil || math.Abs(got-want) > tolerance*want {
			r.t.Errorf("%s, %s old: %.2f, %v; want %.2f", what, youngest, got, err, want)
		}
	}
	sum, pods, youngest := 0.0, []string{}, time.Hour
	for pod, all := range heard {
		want, age := rateOf(all), time.Since(all[0])
		sum, pods, youngest = sum+want, append(pods, pod), min(youngest, age)
		points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: pod, Expression: metric.ParseExpression("x:rate:1m")})
		near("pod "+pod, points, err, want, age)
		q := metric.Query{Namespace: "ns", Expression: metric.ParseExpression("x:rate:1m"),
			MatchLabels: func(set metric.Labels) bool { of, _ := set.Get("of"); return of == pod }}
		points, err = r.External(q)
		near("external of "+pod, points, err, want, age)
	}
	q, _ := rolledUp("x:rate:1m", pods, "")
	points, err := r.Objects(q)
	near("roll-up", points, err, sum, youngest)
}

// The time in which an origin was silent is no time for the label sets that it received, whatever other
// label sets the object has, and however young it is.
func TestARateOfLabelSetsOverASilence(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		const dies, moves = 22 * time.Second, 27 * time.Second
		time.AfterFunc(dies, r.peers[0].kill)
		begun := time.Now()
		for n := range 500 { // ten samples a second of each label set
			at := time.Since(begun)
			for _, object := range []string{"pod:a,ns:ns", "ns:ns"} {
				r.push(0, "x:1|c|#client:0,"+object)
				if at < dies {
					r.push(1, "x:1|c|#client:1,"+object)
				} else if at >= moves {
					r.push(0, "x:1|c|#client:1,"+object)
				}
			}
			time.Sleep(100 * time.Millisecond)
			if n < 150 || n%7 != 0 {
				continue
			}
			points, err := r.External(metric.Query{Namespace: "ns", Expression: metric.ParseExpression("x:rate:1m")})
			if err != nil || len(points) != 2 {
				t.Error(points, err)
				return
			}
			for what, got := range map[string]float64{"pod": r.value("x:rate:1m"), "external": points[0].Value.Float64() + points[1].Value.Float64()} {
				if slack := 0.02 + 1/at.Seconds(); math.Abs(got-20) > 20*slack { // the age is known to a tick
					t.Errorf("%s at %s: %.2f, want 20", what, at, got)
				}
			}
		}
	})
}
