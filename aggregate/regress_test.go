package aggregate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Where history entries are missing, the value before the oldest one isn't 0: the total since birth
// never counts in a window.

// A timer that was idle for longer than every window gets a sample of the past, or a histogram that
// has not grown.
func TestIdleTimersDoNotCountTheirLifetime(t *testing.T) {
	start(t, func(f *fixture) {
		for range 100 {
			f.push("t:5|ms|#pod:a,ns:ns")
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		f.push(fmt.Sprintf("t:5|ms|#pod:a,ns:ns|T%d", time.Now().Unix()-5))
		f.want("t:count", "a=1")
		f.want("t:sum", "a=5")
	})
	start(t, func(f *fixture) {
		h := 0.0
		push := func() { f.apply(pushOf(metric.Accumulate, histogram([]float64{1, 2}, []float64{h, 0, 0}, h))) }
		for range 20 {
			h += 10
			push()
			time.Sleep(10 * time.Second)
		}
		for range 3 {
			time.Sleep(130 * time.Second)
			push()
			time.Sleep(time.Second)
			f.want("t:count", "a=0")
			f.want("t:sum", "a=0")
		}
	})
}

// A window that the folder was not written with reaches further back than its notes.
func TestLongerWindowsAfterARestart(t *testing.T) {
	start(t, func(f *fixture) {
		for range 600 {
			f.push("a:1000|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
		}
		disk := newSaved()
		disk.flush(f.Table, each)
		c := DefaultConfig()
		c.Windows = []time.Duration{10 * time.Second, 5 * time.Minute}
		again := &fixture{Table: New(c, describeByPod, quiet()), t: f.t}
		must(t, disk.into(again.Table))
		again.near("a:count:10s", 10_000, 0.11)
		if got := again.value("a:count:5m"); got > 75_000 {
			t.Errorf("%v: more than the folder's notes", got)
		}
	})
}

// Memory for history entries is refused, before a restart and after it.
func TestNotesGivenUpForLackOfMemory(t *testing.T) {
	start(t, func(f *fixture) {
		for range 200 {
			f.push("a:100000|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
		}
		f.config.MaxBytes = 1
		for i := range 200 {
			f.push(fmt.Sprintf("a:%d|c|#pod:a,ns:ns", 1<<(i%30)))
			time.Sleep(time.Second)
		}
		before := f.ask("a:count")
		if got := f.value("a:count"); got > 1<<32 {
			t.Errorf("%v: more than came", got)
		}
		disk := newSaved()
		disk.flush(f.Table, each)
		disk.restore(f.t).want("a:count", before)
	})
}

// An observation in the unit that the window divides has a count, so it has a sum.
func TestSumsAtTheWindowsEdge(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("t:5|ms|#pod:a,ns:ns")
		for i := range 59 {
			time.Sleep(time.Second)
			f.want("t:count", "a=1")
			if f.want("t:sum", "a=5"); t.Failed() {
				t.Fatalf("after %d s", i+1)
			}
		}
	})
}

func TestLargeFractionalCounters(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("a:0.5|c|#pod:a,ns:ns")
		for i := range 100 {
			f.push("a:40000000000|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
			if i > 70 {
				f.near("a:count:1m", 60*4e10, 0.02)
			}
		}
		time.Sleep(5 * time.Second)
		f.near("a:rate:10s", 2e10, 0.3)
	})
}

// A total's first push says where it begins: nothing came in the interval before it.
func TestYoungRunningTotals(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("other:1|c|#pod:a,ns:ns")
		time.Sleep(time.Second)
		v := 5000.0
		for i := range 9 {
			f.apply(total("c", v))
			v += 1000
			time.Sleep(5 * time.Second)
			if i > 1 {
				f.near("c:rate", 100, 0.02)
			}
			time.Sleep(5 * time.Second)
		}
	})
}

// Samples that were dated into the past and saved are restored after a kill, at their time.
func TestDatedSamplesAreSaved(t *testing.T) {
	start(t, func(f *fixture) {
		disk := newSaved()
		f.push("a:1|c|#pod:a,ns:ns", "t:1|ms|#pod:a,ns:ns")
		for range 70 {
			disk.flush(f.Table, never)
			time.Sleep(time.Second)
		}
		f.push("a:1|c|#pod:a,ns:ns", "t:1|ms|#pod:a,ns:ns")
		time.Sleep(time.Second)
		disk.flush(f.Table, each)
		past := func(ago int64) int64 { return time.Now().Unix() - ago }
		f.push(fmt.Sprintf("a:1000|c|#pod:a,ns:ns|T%d", past(40)), fmt.Sprintf("t:7|ms|#pod:a,ns:ns|T%d", past(40)))
		f.push(fmt.Sprintf("b:1000|c|#pod:a,ns:ns|T%d", past(300)), "b:1|c|#pod:a,ns:ns")
		time.Sleep(time.Second)
		disk.flush(f.Table, never)
		again := disk.restore(f.t)
		for asked, want := range map[string]string{"a:count:10s": "a=1", "a:count:1m": "a=1001", "b:count:1m": "a=1", "b:total": "a=1001",
			"t:count:10s": "a=1", "t:count:1m": "a=2", "t:max:1m": "a=7", "t:max:10s": "a=1"} {
			f.want(asked, want)
			again.want(asked, want)
		}
	})
}

// Bins of dated observations take no room from others.
func TestDatedObservationsKeepOthers(t *testing.T) {
	start(t, func(f *fixture) {
		for range 11 {
			f.push("t:5|ms|#pod:a,ns:ns")
			time.Sleep(4 * time.Second)
		}
		for i := range 5 {
			f.push(fmt.Sprintf("t:5|ms|#pod:a,ns:ns|T%d", time.Now().Unix()-int64(6+4*i)))
		}
		f.want("t:count", "a=16")
		f.want("t:sum", "a=80")
		r, series, err := f.planOf(&metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression("t:mean")})
		must(t, err)
		r.begin()
		defer r.end()
		if r.add(series); r.Distribution.Size() != 16 {
			t.Errorf("the bins have %v observations, want 16", r.Distribution.Size())
		}
	})
}

// A client that sends what it could not send before is older than its first sample here.
func TestBackfillBehindALiveSample(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("a:10|c|#pod:a,ns:ns")
		for i := range 58 {
			f.push(fmt.Sprintf("a:10|c|#pod:a,ns:ns|T%d", time.Now().Unix()-2-int64(i)))
		}
		f.near("a:rate", 10, 0.05)
	})
}

// A small gauge beside a huge one counts.
func TestGaugesOfDifferentSize(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("g:1e17|g|#pod:a,ns:ns", "g:0|g|#pod:a,ns:ns,x:1")
		time.Sleep(3 * time.Second)
		f.push("g:0.5|g|#pod:a,ns:ns")
		time.Sleep(3 * time.Second)
		f.want("g:min:10s", "a=0.5")
		f.want("g:max:10s", "a=100000000000000000")
	})
}

// A log of notes that are too old is given back, though its gauge is set to what it was again and
// again.
func TestLogsOfConstantsAreGivenBack(t *testing.T) {
	start(t, func(f *fixture) {
		for i := range 200 {
			f.push(fmt.Sprintf("g:%d|g|#pod:a,ns:ns", i))
			time.Sleep(time.Second)
		}
		for range 60 {
			f.push("g:5|g|#pod:a,ns:ns")
			time.Sleep(10 * time.Second)
		}
		if n, _ := f.Logs.Used(); n != 0 || f.logBytes.Load() != 0 {
			t.Errorf("%d logs, %d bytes", n, f.logBytes.Load())
		}
		f.want("g:mean", "a=5")
	})
}

// A reader may have noted under a tick that is later than that of what was held and is applied now.
// The records stay in order, or the block could not be restored.
func TestTimerNotedByAReaderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t), newSaved()
		f.push("t:1|ms|#pod:a,ns:ns")
		f.Roll()
		time.Sleep(10 * time.Second)
		f.push("t:2|ms|#pod:a,ns:ns")
		f.want("t:count", "a=2")
		late := sample("t:3|ms|#pod:a,ns:ns")
		late.Arrived = time.Now().Add(-5 * time.Second).UnixNano()
		f.apply(late)
		f.want("t:count", "a=3")
		disk.flush(f.Table, each)
		disk.restore(t).want("t:count", "a=3")
	})
}
