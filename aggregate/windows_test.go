package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
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
