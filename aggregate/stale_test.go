package aggregate

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// vanished says that pod a has no value any more.
func vanished(name string, tags ...string) *metric.Sample {
	s := &metric.Sample{Name: []byte(name), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:a,ns:ns")}
	for _, tag := range tags {
		s.Tags = append(append(s.Tags, ','), tag...)
	}
	return s
}

func at(s *metric.Sample, ago time.Duration) *metric.Sample {
	s.Dated = time.Now().Add(-ago).UnixNano()
	return s
}

const stale = `no series of %q for pods in "ns"; last seen 0s ago, when its client marked it stale`

// After a staleness marker, a series of any kind is absent from the next read, and the next value
// begins a new one.
func TestVanish(t *testing.T) {
	lines := map[string]string{"c": "c:5|c|#pod:a,ns:ns", "f": "f:0.5|c|#pod:a,ns:ns", "g": "g:4|g|#pod:a,ns:ns",
		"h": "h:4|g|#pod:a,ns:ns|T946684900", "t": "t:8|ms|#pod:a,ns:ns", "s": "s:x|s|#pod:a,ns:ns"}
	for name, line := range lines {
		t.Run(name, func(t *testing.T) {
			start(t, func(f *fixture) {
				f.push(line)
				before := f.ask(name)
				f.apply(vanished(name))
				f.want(name, fmt.Sprintf(stale, name))
				f.push(line)
				f.want(name, before)
				f.w.Online()
				f.w.Apply(sample(line))
				f.w.Apply(vanished(name)) // in the same batch as a value
				f.want(name, fmt.Sprintf(stale, name))
				f.w.Offline()
				time.Sleep(2 * time.Second) // the second step: nothing comes again
				if got := f.ask(name); got == before || f.Series() != 0 || f.inLimbo() != 0 {
					t.Errorf("%s, %d series, %d in limbo", got, f.Series(), f.inLimbo())
				}
				checkBalance(t, f)
				f.push(name + ":1|g|#pod:a,ns:ns") // of another kind, if it likes
				f.want(name, "a=1")
			})
		})
	}
}

func (t *Table) inLimbo() int {
	t.evictions.mu.Lock()
	defer t.evictions.mu.Unlock()
	return len(t.evictions.tombstones)
}

// A staleness marker of an absent series takes nothing: no place, no slot of a limit, no memory.
func TestVanishOfNothing(t *testing.T) {
	f := inCluster(t)
	from := senderOf("a", "1")
	f.send(from, "g:1|c|#k:1")
	nothing := vanished("g", "k:2")
	nothing.Sender = from
	f.w.Online()
	if n := testing.AllocsPerRun(1000, func() { f.w.Apply(nothing); f.w.Quiesce() }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if f.Series() != 1 || f.blocks.next != 1 {
		t.Errorf("%d series, %d places", f.Series(), f.blocks.next)
	}
	if got := f.total("g", uid("1")); got != "a/1=1" {
		t.Error(got)
	}
	if got := f.w.Apply(vanished("status")); got != metric.BadName {
		t.Errorf("%s, want name", got)
	}
}

// One label set goes, the others stay.
func TestVanishOfOneLabelSet(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("g:1|g|#pod:a,ns:ns,k:1", "g:2|g|#pod:a,ns:ns,k:2")
		f.apply(vanished("g", "k:1"))
		f.want("g", "a=2")
	})
}

// An end that is older than a value says nothing of it: a request that is sent again may bring one.
func TestVanishComesLate(t *testing.T) {
	start(t, func(f *fixture) {
		gauge := &metric.Sample{Name: []byte("g"), Kind: metric.Gauge, Op: metric.Assign, Whole: 7, Tags: []byte("pod:a,ns:ns"), Separator: ':'}
		for name, value := range map[string]*metric.Sample{"g": gauge, "c": total("c", 7), "t": pushOf(metric.Accumulate, histogram([]float64{1}, []float64{1, 2}, 3))} {
			f.apply(at(value, 10*time.Second))
			f.apply(at(vanished(name), 11*time.Second))
			if f.Series() != 1 {
				t.Errorf("%s: a late end took it", name)
			}
			f.apply(at(vanished(name), 10*time.Second)) // of the same second: it came after
			if f.Series() != 0 {
				t.Errorf("%s: its end did not take it", name)
			}
			f.apply(at(value, -time.Hour), at(vanished(name), -time.Minute)) // the future counts as now
			if f.Series() != 0 {
				t.Errorf("%s: its end did not take it, in the future", name)
			}
		}
	})
}

// One that was held until its sender was known is as old as when it came.
func TestVanishThatWasHeld(t *testing.T) {
	start(t, func(f *fixture) {
		early := vanished("g")
		early.Arrived = time.Now().UnixNano()
		time.Sleep(3 * time.Second)
		f.push("g:7|g|#pod:a,ns:ns")
		f.apply(early)
		f.want("g", "a=7")
		time.Sleep(3 * time.Second)
		f.apply(early)
		f.want("g", "a=7")
		late := vanished("g")
		late.Arrived = time.Now().UnixNano()
		f.apply(late)
		f.want("g", `no series of "g" for pods in "ns"; last seen 3s ago, when its client marked it stale`)
	})
}

// The total that comes after an end is where a new series begins: none of it is growth, neither of
// what was there before.
func TestVanishOfARunningTotal(t *testing.T) {
	start(t, func(f *fixture) {
		f.apply(started(total("c", 1000), 5), started(total("c", 1007), 5), vanished("c"))
		f.want("c:total", fmt.Sprintf(stale, "c"))
		f.apply(started(total("c", 2000), 6))
		f.want("c:count", "a=0")
		f.want("c:total", "a=2000")
		f.apply(started(total("c", 2003), 6), started(total("c", 2), 7))
		f.want("c:count", "a=5")
		f.want("c:total", "a=2")
		h := histogram([]float64{1, 2}, []float64{5, 5, 5}, 20)
		f.apply(pushOf(metric.Accumulate, h), vanished("t"), pushOf(metric.Accumulate, h))
		f.want("t:count", "a=0")
		h.Counts[0]++
		h.Count++
		f.apply(pushOf(metric.Accumulate, h))
		f.want("t:count", "a=1")
		time.Sleep(2 * time.Second)
		if applied, held := f.Balance(); applied != held || applied[0] != 12 {
			t.Errorf("applied %v, held %v", applied, held)
		}
	})
}

// A series that ended by a staleness marker stays absent after a restart, whatever of it was saved
// when.
func TestVanishAcrossARestart(t *testing.T) {
	for name, checkpoint := range map[string]func(int) bool{"deltas": never, "checkpoints": each} {
		t.Run(name, func(t *testing.T) {
			start(t, func(f *fixture) {
				disk := newSaved()
				f.push("g:1|g|#pod:a,ns:ns", "k:1|g|#pod:a,ns:ns")
				f.apply(total("c", 10), total("c", 12))
				disk.flush(f.Table, checkpoint)
				f.apply(vanished("g"), vanished("c"))
				disk.flush(f.Table, checkpoint)
				again := disk.restore(t)
				if again.Series() != 1 {
					t.Errorf("%d series, want 1: %s, %s", again.Series(), again.ask("g"), again.ask("c:total"))
				}
				again.want("k", "a=1")
				f.apply(total("c", 20))
				disk.flush(f.Table, checkpoint)
				again = disk.restore(t)
				again.want("c:total", "a=20")
				again.want("c:count", "a=0")
				again.apply(total("c", 21))
				again.want("c:count", "a=1")
			})
		})
	}
}

// A2: series that vanish while others write, read and save them leave every increment in exactly
// one place. Run with -race.
func TestA2SeriesThatVanish(t *testing.T) {
	c := DefaultConfig()
	c.Windows = []time.Duration{time.Second, 6 * time.Second}
	table := New(c, describeByPod, slog.New(slog.DiscardHandler))
	var writers sync.WaitGroup
	rest := disturb(table)
	var sent atomic.Int64
	for n := range 4 {
		writers.Go(func() {
			w := table.NewWriter()
			defer w.Close()
			r := rand.New(rand.NewPCG(uint64(n), 3))
			for range size(4000, 400, 100) {
				for range 64 {
					tags := fmt.Sprintf("pod:p%d,ns:ns,k:%d", r.IntN(3), r.IntN(3))
					s := []*metric.Sample{sample(fmt.Sprintf("c%d:%d|c|#%s", r.IntN(4), r.IntN(9), tags)), sample("g:1|g|#" + tags), sample("t:1|ms|#" + tags)}[r.IntN(3)]
					if r.IntN(8) == 0 {
						s.Op = metric.MarkStale
					} else if s.Kind == metric.Counter {
						sent.Add(s.Whole)
					}
					if got := w.Apply(s); got != metric.Applied {
						t.Errorf("rejected: %s", got)
					}
				}
				w.Quiesce()
			}
		})
	}
	writers.Wait()
	rest()
	table.reclaim(&pace{time.Now()})
	if applied, held := table.Balance(); applied != held || applied != [2]int64{sent.Load(), 0} {
		t.Errorf("sent %d, applied %v, held %v", sent.Load(), applied, held)
	}
	if table.evicted.Load() == 0 || table.inLimbo() != 0 || table.Series() > 6*3*3 {
		t.Errorf("%d evicted, %d in limbo, %d series", table.evicted.Load(), table.inLimbo(), table.Series())
	}
}

// Places of what vanished are used again after the writer's next boundary.
func TestA6PlacesOfWhatVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		value, end := sample("g:1|g|#pod:a,ns:ns"), vanished("g")
		f.w.Online()
		for range size(200, 50, 12) {
			for range 256 {
				f.w.Apply(value)
				f.w.Apply(end)
			}
			f.w.Quiesce()
			time.Sleep(time.Second)
		}
		if made := f.Blocks(); made != 1 {
			t.Errorf("%d blocks, want 1: places are not used again", made)
		}
	})
}
