package aggregate

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Regression tests at the edges: each failed before its mend.

func podQuery(name string) metric.Query {
	return metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.Expression{Name: name}}
}

// A series that is deleted and pushed again, as another kind or not, moves to another place. Its birth is
// replayed before its death.
func TestEdgeRebirthElsewhere(t *testing.T) {
	for _, kind := range []string{"c", "g"} {
		synctest.Test(t, func(t *testing.T) {
			f, disk := newFixture(t).running(), newSaved()
			f.push("low:1|c|#pod:a,ns:ns", "x:5|c|#pod:a,ns:ns") // places 0 and 1
			f.Delete(podQuery("low"))
			time.Sleep(2*time.Second + 123*time.Millisecond) // place 0 is free
			disk.flush(f.Table, each)
			f.Delete(podQuery("x"))
			for _, value := range []string{"7", "+1"} { // place 0
				f.push(fmt.Sprintf("x:%s|%s|#pod:a,ns:ns", value, kind))
				disk.flush(f.Table, never)
			}
			asked := map[string]string{"c": "x:total", "g": "x"}[kind]
			f.want(asked, "a=8")
			disk.restore(t).want(asked, "a=8")
		})
	}
}

// The same without any free place below: the other block may be restored earlier or later.
func TestEdgeRebirthInAnotherBlock(t *testing.T) {
	f, disk := newFixture(t), newSaved()
	for i := range kind.BlockSeries {
		f.push(fmt.Sprintf("x%d:1|c|#pod:a,ns:ns", i))
	}
	disk.flush(f.Table, each)
	f.push("x5:1|c|#pod:a,ns:ns")
	disk.flush(f.Table, never)
	f.Delete(podQuery("x5"))
	f.push("x5:7|c|#pod:a,ns:ns") // block 1
	disk.flush(f.Table, never)
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		again := newFixture(t)
		must(t, again.RestoreClock(disk.clock))
		for _, i := range order {
			must(t, again.RestoreBlock(i, disk.names[i], disk.state[i], slices.Values(disk.deltas[i])))
		}
		again.RestoreDone()
		again.Begin()
		again.want("x5:total", "a=7")
	}
}

// Born again in the same place between two deltas: the old notes stay.
func TestEdgeRebirthInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t).running(), newSaved()
		time.Sleep(2*time.Minute + 123*time.Millisecond)
		for range 20 {
			f.push("x:1000|c|#pod:a,ns:ns", "t:5|ms|#pod:a,ns:ns")
			time.Sleep(time.Second)
		}
		disk.flush(f.Table, each)
		f.Delete(podQuery("x"))
		f.Delete(podQuery("t"))
		time.Sleep(time.Second)
		f.push("t:1|ms|#pod:a,ns:ns", "x:3|c|#pod:a,ns:ns")
		disk.flush(f.Table, never)
		f.want("x:count", "a=3")
		f.want("t:count", "a=1")
		again := disk.restore(t)
		again.want("x:total", "a=3")
		again.want("x:count", "a=3")
		again.want("x:count:10s", "a=3")
		again.want("t:count", "a=1")
	})
}

// publish marks before it makes live: a delta in between drops the birth for good.
func TestEdgeBirthRacesWithDelta(t *testing.T) {
	f := newFixture(t)
	disk := newSaved()
	var stop atomic.Bool
	var wg sync.WaitGroup
	f.push("first:1|c|#pod:a,ns:ns")
	var deltas [512][][]byte
	var last atomic.Uint32
	wg.Go(func() {
		for !stop.Load() {
			i := int(last.Load())
			if d := f.AppendDelta(nil, i); len(d) > 0 {
				deltas[i] = append(deltas[i], d)
			}
		}
	})
	n := size(100_000, 20_000, 8000)
	f.w.Online()
	for i := range n {
		f.w.Apply(&metric.Sample{Name: fmt.Appendf(nil, "c%d", i), Kind: metric.Counter, Whole: 1})
		last.Store(f.blocks.made.Load() - 1)
		f.w.Quiesce()
	}
	stop.Store(true)
	wg.Wait()
	for i := range f.Blocks() {
		deltas[i] = append(deltas[i], f.AppendDelta(nil, i))
	}
	disk.clock = f.AppendClock(nil)
	again := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
	again.RestoreClock(disk.clock)
	for i := range f.Blocks() {
		must(t, again.RestoreBlock(i, nil, nil, slices.Values(deltas[i])))
	}
	again.RestoreDone()
	again.Begin()
	if a, b := f.Series(), again.Series(); a != b {
		t.Errorf("%d series live, %d restored", a, b)
	}
}

// A rejected sample makes a series.
func TestEdgeRefusedSampleMakesNoSeries(t *testing.T) {
	start(t, func(f *fixture) {
		f.refuses("c:1e30|c|#pod:a,ns:ns", metric.BadValue)
		f.refuses("t:1|ms|@0.00000001|#pod:a,ns:ns", metric.BadRate)
		f.want("c", `no series of "c" for pods in "ns": none was ever received`)
		if n := f.Series(); n != 0 {
			t.Errorf("%d series, want none", n)
		}
		f.push("c:1|g|#pod:a,ns:ns") // and holds the kind
	})
}

// Refused for want of body memory; the memory comes back, the refusal stays.
func TestEdgeRefusalOutlivesBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes = 1 << 20
		f := newFixtureOf(t, c).running()
		for i := range 180 { // how much of the memory 120 take depends on how their members are hashed
			f.w.Online()
			for m := range 1100 {
				f.w.Apply(sample(fmt.Sprintf("s%d:u%d|s|#pod:a,ns:ns", i, m)))
			}
		}
		f.w.Offline()
		time.Sleep(2 * time.Second)
		f.refuses("new:1|ms|#pod:a,ns:ns", metric.OverLimit)
		t.Logf("%d bytes", f.BodyBytes.Load())
		time.Sleep(10 * time.Minute)
		t.Logf("%d bytes of %d", f.BodyBytes.Load(), c.MaxBytes)
		f.push("other:1|ms|#pod:a,ns:ns")
		f.push("new:1|ms|#pod:a,ns:ns")
	})
}

// A refusal decided before the retry epoch increases, remembered after it.
func TestEdgeRefusalOfTheTurnBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, f := true, &fixture{t: t}
		f.Table = New(DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
			if string(s.Name) == "x" && full {
				full = false
				f.Delete(metric.Query{Expression: metric.Expression{Name: "old"}}) // another goroutine's, at this moment
				return metric.OverLimit
			}
			return describeByPod(s, d)
		}, slog.New(slog.DiscardHandler))
		f.w = f.NewWriter()
		f.push("old:1|c")
		f.refuses("x:1|c", metric.OverLimit)
		f.push("x:1|c") // there is room since
	})
}

// Run with -race: reading.add reads labels of a place that create may be filling.
func TestEdgeLabelsRace(t *testing.T) {
	f := newFixture(t)
	f.push("x:1|c|#pod:a,ns:ns,k:v")
	r, series, err := f.planOf(&metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.Expression{Name: "x"}})
	must(t, err)
	f.Delete(podQuery("x"))
	f.reclaim(&pace{time.Now()})
	var wg sync.WaitGroup
	wg.Go(func() { f.w.Apply(sample("y:1|c|#pod:a,ns:ns,other:w")) })
	wg.Go(func() { r.begin(); r.add(series) })
	wg.Wait()
}

// planOf plans a query, and returns the first series that it selects.
func (f *fixture) planOf(q *metric.Query) (r *mergedRead, first lookup.Ref, err error) {
	m := NewMerged(f.Table)
	r, err = m.plan(m.sources(), q, index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name})
	if err == nil {
		first = r.sources[0].found[0].Series[0]
	}
	return r, first, err
}

// A name of several kinds and namespaces is listed once, in the same order each time.
func TestEdgeListedIsStable(t *testing.T) {
	f := newFixture(t)
	f.push("x:1|c|#pod:a,ns:ns", "x:1|g|#pod:b,ns:other", "y:1|c|#pod:a,ns:ns", "y:1|g|#pod:b,ns:ns")
	first := f.Listed(10)
	if len(first) != 2 {
		t.Errorf("%v, want x and y", first)
	}
	for range 100 {
		if got := f.Listed(10); !slices.Equal(got, first) {
			t.Fatalf("%v, then %v", first, got)
		}
	}
}

// The namespace's series has outlived its time: the cluster-wide one answers.
func TestEdgeFallbackWhileExpired(t *testing.T) {
	c := DefaultConfig()
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOf(t, c)
		s := sample("q:1|g|#ns:shop")
		s.TTL = time.Minute
		f.w.Apply(s)
		f.w.Offline()
		f.push("q:2|g")
		f.Roll()
		time.Sleep(2 * time.Minute) // the sweep has not come by
		if got := f.askExternal("shop", "q"); got != "{}=2" {
			t.Error(got)
		}
	})
}

// The least int64 and a fraction.
func TestEdgeIncrementLeast(t *testing.T) {
	whole, fraction, ok := (&metric.Sample{Whole: math.MinInt64, Fraction: -0.5}).Increment()
	if ok && whole > 0 {
		t.Errorf("-9223372036854775808.5 is counted as %d + %d/2^32", whole, fraction)
	}
}

// Increments that no autoscaler could be told of are rejected before they wrap a total.
func TestEdgeCounterOverflow(t *testing.T) {
	start(t, func(f *fixture) {
		f.refuses("c:9223372036854775807|c|#pod:a,ns:ns", metric.BadValue)
		f.refuses("c:-9223372036854775808|c|#pod:a,ns:ns", metric.BadValue)
		f.refuses("c:9000000000000000|c|@0.1|#pod:a,ns:ns", metric.BadValue)
		f.push("c:9223372036854775|c|#pod:a,ns:ns", "c:9223372036854775|c|#pod:a,ns:ns")
		f.want("c:total", "a=18446744073709550")
		for range 498 {
			f.push("c:9223372036854775|c|#pod:a,ns:ns")
		}
		f.want("c:total", "a=4611686018427387500")
		f.refuses("c:9223372036854775|c|#pod:a,ns:ns", metric.BadValue) // full
		f.want("c:total", "a=4611686018427387500")
		f.push("c:1|c|#pod:a,ns:ns", "c:-9223372036854775|c|#pod:a,ns:ns")
		f.want("c:total", "a=4602462646390532726")
		checkBalance(t, f)
	})
}

// A gauge's bits off a disk that no client could have sent.
func TestEdgeMarkFromDisk(t *testing.T) {
	for _, bits := range []uint64{kind.GaugeMoved, kind.GaugeUnset, math.Float64bits(math.Inf(1))} {
		f := newFixture(t)
		f.push("g:1|g|#pod:a,ns:ns")
		f.Roll()
		b := f.blocks.at[0].Load()
		b.page.cells[0].History.Newest = bits
		b.unnamed[0].Store(0)
		names, state := f.AppendNames(nil, 0), f.AppendState(nil, 0)
		again := newFixture(t)
		if err := again.RestoreBlock(0, names, state, slices.Values([][]byte(nil))); err == nil {
			t.Errorf("%x is taken for a gauge's value", bits)
		}
		again.RestoreDone()
		again.push("g:1|g|#pod:a,ns:ns|T100")
		again.want("g", "a=1")
	}
}

// Nothing changed since the restore: nothing to append.
func TestEdgeFirstDeltaAfterRestore(t *testing.T) {
	f, disk := newFixture(t), newSaved()
	for i := range 1000 {
		f.push(fmt.Sprintf("c%d:1|c|#pod:a,ns:ns", i))
	}
	disk.flush(f.Table, each)
	again := disk.restore(t)
	if d := again.AppendDelta(nil, 0); len(d) > 0 {
		t.Errorf("%d bytes of delta for a block that was restored and not touched", len(d))
	}
}

// An expired gauge of pod a hides the counter of pod b.
func TestEdgeExpiredKindHides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.push("x:1|g|#pod:a,ns:ns")
		f.Roll()
		time.Sleep(59 * time.Minute)
		f.push("x:1|c|#pod:b,ns:ns")
		f.Roll()
		time.Sleep(2 * time.Minute)
		f.want("x:total", "b=1")
	})
}

// A long shortest window: how long an expired series stays.
func TestEdgeSweepPace(t *testing.T) {
	c := DefaultConfig()
	c.Windows, c.ObjectTTL = []time.Duration{time.Hour}, 10*time.Minute
	must(t, c.Validate())
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOf(t, c).running()
		f.push("x:1|c|#pod:a,ns:ns")
		for i := range 3 * kind.BlockSeries {
			f.push(fmt.Sprintf("c%d:1|g", i))
		}
		time.Sleep(11 * time.Minute)
		f.refuses("x:1|g|#pod:a,ns:ns", metric.Applied)
	})
}

// Weights over a window.
func TestEdgeTimerOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	start(t, func(f *fixture) {
		s := sample("t:5|ms|#pod:a,ns:ns")
		s.Rate = 1.0 / metric.MaxWeight
		for range 64 {
			f.w.Online()
			for range 1 << 14 {
				if r := f.w.Apply(s); r != metric.Applied {
					t.Fatal(r)
				}
			}
			f.w.Offline()
			time.Sleep(500 * time.Millisecond)
		}
		f.want("t:count", "a=1099511627776")
		f.want("t", "a=5")
	})
}

// A writer is in the table that writers grew from after the epoch was taken.
func TestEdgeSetMerge(t *testing.T) {
	var e memory.Epochs
	seat := e.Register()
	spans := window.NewSpans([]time.Duration{10 * time.Second}, time.Second)
	s := kind.NewSet(spans)
	room := kind.Budget{Env: &kind.Env{MayGrow: func() bool { return true }}, Body: new(kind.Body)}
	hash := func(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }
	n := 0
	for ; s.Exact.Load().Older.Load() == nil; n++ {
		s.Insert(hash(n), 100, room)
	}
	s.MergeLocked(&e, 50) // older writers have to pass
	seat.Quiesce(&e)
	held := s.Exact.Load() // the writer is between its look at the table and see
	for ; s.Exact.Load() == held; n++ {
		s.Insert(hash(n), 100, room)
	}
	s.MergeLocked(&e, 50)
	member := held.Hashes
	var h uint64
	for i := range member {
		if h = member[i].Load(); h != 0 {
			break
		}
	}
	if !held.See(h, 109) {
		t.Skip("full")
	}
	newest := uint32(0)
	s.Exact.Load().Each(func(hash uint64, tick uint32) {
		if hash == h {
			newest = max(newest, tick)
		}
	})
	if newest != 109 {
		t.Errorf("the member was seen in 109, the set says %d", newest)
	}
}

// A set that churns, with 600 members in a minute, stays exact.
func TestEdgeSetChurn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	start(t, func(f *fixture) {
		n := 0
		for range 600 {
			for range 10 {
				n++
				f.push(fmt.Sprintf("s:u%d|s|#pod:a,ns:ns", n))
			}
			time.Sleep(time.Second)
		}
		s := f.blocks.at[0].Load().body(0).Set
		if s.Many.Load() != nil {
			t.Error("600 members a minute are estimated")
		}
		time.Sleep(20 * time.Minute)
		t.Log(f.ask("s"), s.BytesLocked(), "bytes after 20 idle minutes")
	})
}

// The store takes the state, then the names.
func TestEdgeStateThenNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t), newSaved()
		f.push("x:1000|c|#pod:a,ns:ns")
		f.AppendDelta(nil, 0)
		disk.state[0] = f.AppendState(nil, 0)
		f.Delete(podQuery("x"))
		f.reclaim(&pace{time.Now()})
		f.push("y:1|c|#pod:b,ns:ns")
		disk.names[0] = f.AppendNames(nil, 0)
		disk.clock = f.AppendClock(nil)
		again := disk.restore(t)
		if got := again.ask("y:total"); got == "b=1000" {
			t.Error("y has the value of x")
		}
	})
}

// At the cap a series idle for more than an hour yields.
func TestEdgeIdleYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxSeries = 1
		f := newFixtureOf(t, c).running()
		f.push("old:1|c")
		time.Sleep(30 * time.Minute)
		f.refuses("new:1|c", metric.OverLimit)
		time.Sleep(90 * time.Minute) // idle for long, and somebody wants the place
		f.push("new:1|c")
		f.refuses("newer:1|c", metric.OverLimit)
		if got := f.askExternal("", "old"); got != `no series of "old" among external metrics; last seen 2h ago, evicted to make room for newer series` {
			t.Error(got)
		}
	})
}

// A series that gets a sample after the sweep found it idle makes no room.
func TestEdgeASeriesInUseMakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.push("old:1|c")
		f.Roll()
		found := []lookup.Ref{{State: f.blocks.pageAt(0).cells[0].State.Load()}}
		time.Sleep(2 * evictableAfter)
		f.push("old:1|c")
		if n := f.evict(found, madeRoom, f.Clock.Now()); n != 0 {
			t.Error("a series in use was evicted")
		}
		f.Roll()
		time.Sleep(2 * evictableAfter)
		if n := f.evict(found, madeRoom, f.Clock.Now()); n != 1 {
			t.Error("an idle series was not evicted")
		}
	})
}

// A new series that MaxSeries rejects takes the place of one idle series, however often its client tries.
func TestEdgeANewSeriesTakesOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxSeries, c.ObjectTTL = 10, 24*time.Hour
		f := newFixtureOf(t, c)
		for i := range 10 {
			f.push(fmt.Sprintf("old:1|c|#pod:a,ns:ns,k:%d", i))
		}
		f.Roll()
		for range 3 { // nothing is idle
			f.refuses("new:1|c", metric.OverLimit)
			f.sweep()
		}
		time.Sleep(2 * evictableAfter)
		f.sweep()
		if n := f.Series(); n != 9 {
			t.Fatalf("%d series are left after one was rejected, want 9", n)
		}
		f.push("new:1|c")
		for range 50 {
			f.refuses("other:1|c|#pod:a,ns:ns,k:v", metric.OverLimit)
		}
		f.sweep()
		f.sweep()
		if n := f.Series(); n != 9 {
			t.Errorf("%d series are left after another was rejected 50 times, want 9", n)
		}
		f.push("other:1|c|#pod:a,ns:ns,k:v")
		f.sweep()
		if n := f.Series(); n != 10 {
			t.Errorf("%d series are left when none waits, want 10", n)
		}
	})
}

// A receiving time that no clock reaches is damage.
func TestEdgeClockOutOfRange(t *testing.T) {
	f := newFixture(t)
	blob := []byte{formatVersion}
	blob = binary.AppendUvarint(blob, 1<<62) // ns: 146 years; ticks no longer fit 32 bits
	blob = binary.AppendVarint(blob, 0)
	blob = binary.LittleEndian.AppendUint64(blob, 1)
	blob = binary.AppendUvarint(blob, 2)
	blob = append(blob, 10, 60)
	if err := f.RestoreClock(blob); err == nil {
		t.Errorf("taken: it is tick %d", f.Clock.Now().Tick)
	}
}

// Notes from ahead of the clock count in every window.
func TestEdgeNotesFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t).running(), newSaved()
		early := f.AppendClock(nil)
		time.Sleep(10*time.Minute + 123*time.Millisecond)
		f.push("t:5|ms|#pod:a,ns:ns", "c:5|c|#pod:a,ns:ns")
		time.Sleep(time.Second)
		disk.flush(f.Table, each)
		disk.clock = early
		again := newFixture(t)
		must(t, again.RestoreClock(disk.clock))
		if err := again.RestoreBlock(0, disk.names[0], disk.state[0], slices.Values([][]byte(nil))); err == nil {
			t.Error("notes of ticks that have not come are taken")
		}
	})
}

// Windows and clock steps: a wall clock that jumps two hours ahead is not two hours without
// samples.
func TestEdgeClockJumpsAhead(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("q:1|g|#pod:a,ns:ns")
		time.Sleep(time.Second)
		now := f.Clock.Now()
		now.Wall = now.Wall.Add(2 * time.Hour) // somebody set the clock
		if f.hasExpired(f.blocks.at[0].Load(), 0, now) {
			t.Error("expired a second after its sample")
		}
	})
}

// The cap that Validate allows, with a place in limbo.
func TestEdgeMostSeries(t *testing.T) {
	f := newFixture(t)
	f.blocks.next = maxBlocks << kind.BlockBits // all were handed out, some of them are in limbo
	defer func() {
		if p := recover(); p != nil {
			t.Error("panic:", p)
		}
	}()
	f.blocks.take()
}

// Beyond the cap nothing grows: what timers note of each unit does.
func TestEdgePastsBeyondTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes = 1 << 20
		f := newFixtureOf(t, c).running()
		time.Sleep(time.Minute + 123*time.Millisecond)
		timers := 0
		all := func(i int) (rejected bool) {
			f.w.Online()
			defer f.w.Offline()
			s := sample(fmt.Sprintf("t%d:1|ms|#pod:a,ns:ns", i))
			for bin := range kind.BinCount {
				s.SetFloat(kind.BinValue(bin) * 0.999)
				if r := f.w.Apply(s); r != metric.Applied {
					return true
				}
			}
			return false
		}
		for ; !all(timers); timers++ {
			if f.BodyBytes.Load() > 2*c.MaxBytes {
				t.Fatalf("%d bytes in %d timers, cap %d", f.BodyBytes.Load(), timers, c.MaxBytes)
			}
			time.Sleep(time.Second)
		}
		for range size(70, 70, 15) {
			for i := range timers {
				all(i)
			}
			time.Sleep(time.Second)
		}
		if n := f.BodyBytes.Load(); n > c.MaxBytes*3/2 {
			t.Errorf("%d bytes in %d timers, cap %d", n, timers, c.MaxBytes)
		}
	})
}

type locked struct {
	slog.Handler
	try func()
}

func (l locked) Enabled(context.Context, slog.Level) bool  { return true }
func (l locked) Handle(context.Context, slog.Record) error { l.try(); return nil }

// A log that blocks stops the roller.
func TestEdgeLogsUnderTheHistoryLock(t *testing.T) {
	start(t, func(f *fixture) {
		f.slow.log = slog.New(locked{slog.DiscardHandler, func() {
			if !f.blocks.at[0].Load().history.TryLock() {
				t.Error("logs while it holds the history lock")
				return
			}
			f.blocks.at[0].Load().history.Unlock()
		}})
		for range 12 {
			f.push("c:1|c|#pod:a,ns:ns")
			time.Sleep(30 * time.Second)
			f.ask("c")
		}
	})
}

// A thousand names warned of once silence all others for good.
func TestEdgeWarnedFillsUp(t *testing.T) {
	var s slowPushLog
	now := time.Now()
	for i := range warnedMost {
		s.due(index.Key{Name: fmt.Sprint(i)}, now)
	}
	if !s.due(index.Key{Name: "new"}, now.Add(48*time.Hour)) {
		t.Error("two days later a new one is not warned of")
	}
}

// Late increments of an expired counter cannot overfill its successor, and stay in the accounting.
func TestEdgeLateForAFullSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		const line = "c:9223372036854775|c|#pod:a,ns:ns"
		f.push(line)
		f.Roll()
		time.Sleep(2 * time.Hour)
		slow := f.NewWriter() // looked the series up before its expiry
		key := f.aliases.KeyOf(sample(line))
		old := lookup.TargetRef(f.aliases.Find(&key).Target.Load())
		f.sweepBlock(0, f.Clock.Now(), &pace{time.Now()})
		b, place := f.blocks.of(old.Number)
		slow.updateNow(b, place, sample(line))
		for range 500 {
			f.push(line)
		}
		slow.Quiesce()
		f.reclaim(&pace{time.Now()})
		slow.Close()
		f.want("c:total", "a=4611686018427387500")
		checkBalance(t, f)
	})
}
