package aggregate

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// saved is what a store would hold of a table: the clock, and per block a checkpoint and the deltas
// since.
type saved struct {
	clock  []byte
	names  map[int][]byte
	state  map[int][]byte
	deltas map[int][][]byte
	uptime window.Uptime // of the machine that restores
	// covered is for OnOutage.
	covered func(since time.Time) bool
	takes   time.Duration // each of the steps of a restore
}

func newSaved() *saved {
	return &saved{names: map[int][]byte{}, state: map[int][]byte{}, deltas: map[int][][]byte{}}
}

// flush does what the store does: a delta of every block, and for some of them a checkpoint.
func (s *saved) flush(t *Table, checkpoint func(block int) bool) {
	for i := range t.Blocks() {
		if delta := t.AppendDelta(nil, i); len(delta) > 0 {
			s.deltas[i] = append(s.deltas[i], delta)
		}
		if !checkpoint(i) {
			continue
		}
		if t.NamesChanged(i) || s.names[i] == nil {
			s.names[i] = t.AppendNames(nil, i)
		}
		s.state[i], s.deltas[i] = t.AppendState(nil, i), nil
	}
	s.clock = t.AppendClock(nil)
}

func (s *saved) restore(t testing.TB) *fixture {
	t.Helper()
	table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
	must(t, s.into(table))
	return &fixture{Table: table, t: t, w: table.NewWriter()}
}

// into restores a new table.
func (s *saved) into(table *Table) error {
	table.Clock.Uptime = func() window.Uptime { return s.uptime }
	table.OnOutage(s.covered)
	time.Sleep(s.takes) // the database opens
	if err := table.RestoreClock(s.clock); err != nil {
		return err
	}
	time.Sleep(s.takes)
	for i := range max(len(s.names), len(s.deltas)) {
		if err := table.RestoreBlock(i, s.names[i], s.state[i], slices.Values(s.deltas[i])); err != nil {
			return err
		}
	}
	if err := table.RestoreDone(); err != nil {
		return err
	}
	time.Sleep(s.takes)
	table.Begin()
	return nil
}

func never(int) bool { return false }

func each(int) bool { return true }

var everything = []string{"c", "c:count:10s", "c:rate:10s", "c:total", "f:total", "f:count", "g", "g:mean", "g:min:10s", "h",
	"t", "t:count", "t:count:10s", "t:p95", "t:min", "t:max", "t:sum", "s", "s:unique:10s", "m"}

// all prints all values; what a restored table says must be the same.
func (f *fixture) all() string {
	var out []string
	for _, asked := range everything {
		out = append(out, asked+": "+f.ask(asked))
	}
	return strings.Join(out, "\n")
}

// traffic pushes a second's worth of everything.
func (f *fixture) traffic(r *rand.Rand) {
	for range 40 {
		pod := fmt.Sprintf("|#pod:p%d,ns:ns,k:%d", r.IntN(5), r.IntN(3))
		f.push(fmt.Sprintf("c:%d|c%s", r.IntN(100), pod), "f:0.25|c"+pod, fmt.Sprintf("g:%d|g%s", r.IntN(100), pod),
			fmt.Sprintf("h:%d|g%s|T%d", r.IntN(100), pod, time.Now().Unix()-int64(r.IntN(3))),
			fmt.Sprintf("t:%d|ms|@0.5%s", r.IntN(1000), pod), fmt.Sprintf("s:%d|s%s", r.IntN(3000), pod),
			fmt.Sprintf("m:%d|s|#pod:p0,ns:ns", r.Uint32()))
	}
}

// A table goes on after a restart as if nothing had happened, at whatever moment it was saved and
// however long it was down.
func TestRestoreGoesOn(t *testing.T) {
	for _, c := range []struct {
		name       string
		checkpoint func(*rand.Rand) func(int) bool
	}{
		{"deltas alone", func(*rand.Rand) func(int) bool { return never }},
		{"checkpoints alone", func(*rand.Rand) func(int) bool { return each }},
		{"both", func(r *rand.Rand) func(int) bool { return func(int) bool { return r.IntN(30) == 0 } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(size(4, 1, 1)) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(seed, 1))
					f, disk := newFixture(t).running(), newSaved()
					time.Sleep(time.Minute)
					for range size(150, 150, 60) + r.IntN(20) {
						f.traffic(r)
						time.Sleep(400 * time.Millisecond)
						disk.flush(f.Table, c.checkpoint(r))
					}
					time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
					disk.flush(f.Table, c.checkpoint(r))
					before, down := f.all(), time.Duration(r.IntN(100))*time.Second
					time.Sleep(down)
					again := disk.restore(t)
					if after := again.all(); after != before {
						t.Errorf("seed %d, down for %s: before\n%s\nafter\n%s", seed, down, before, after)
					}
					checkBalance(t, again)
				})
			}
		})
	}
}

// Series that were born or died after the last checkpoint are what they were after any number of restarts,
// whatever each process wrote whole.
func TestRestartsInARow(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			f, disk, born := newFixture(t), newSaved(), 0
			f.push("c:1|c|#pod:p0,ns:ns") // it stays
			for restart := range 12 {
				for range r.IntN(4) {
					born++
					f.push(fmt.Sprintf("c:%d|c|#pod:p%d,ns:ns", 1+r.IntN(9), born), fmt.Sprintf("c:1|c|#pod:p%d,ns:ns", 1+r.IntN(born)))
					if r.IntN(3) == 0 {
						f.End(metric.Object{Resource: "pods", Namespace: "ns", Name: fmt.Sprintf("p%d", 1+r.IntN(born))}, "c")
					}
					disk.flush(f.Table, func(int) bool { return r.IntN(3) == 0 })
				}
				disk.flush(f.Table, func(int) bool { return r.IntN(3) == 0 })
				before := f.ask("c:total")
				f = disk.restore(t)
				if after := f.ask("c:total"); after != before {
					t.Fatalf("seed %d, restart %d: before\n%s\nafter\n%s", seed, restart, before, after)
				}
				checkBalance(t, f)
			}
		})
	}
}

// Replaying a delta that the checkpoint already includes changes nothing: a crash may come between
// the two.
func TestDeltasAreIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		f, disk := newFixture(t).running(), newSaved()
		var deltas [][]byte
		for range 50 {
			f.traffic(r)
			if r.IntN(8) == 0 {
				f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: fmt.Sprintf("p%d", r.IntN(5)), Expression: metric.Expression{Name: "c"}})
			}
			time.Sleep(400 * time.Millisecond)
			delta := f.AppendDelta(nil, 0)
			deltas = append(deltas, delta)
		}
		disk.flush(f.Table, each)
		disk.deltas[0] = deltas[len(deltas)-1:]
		if before, after := f.all(), disk.restore(t).all(); before != after {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		disk.names[0], disk.state[0], disk.deltas[0] = nil, nil, deltas
		if before, after := f.all(), disk.restore(t).all(); before != after {
			t.Errorf("from deltas: before\n%s\nafter\n%s", before, after)
		}
	})
}

// A series that was deleted and came again in the same place starts anew, also where no delta tells
// of its death.
func TestRestoreOfARebirth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t), newSaved()
		for range 5 {
			f.push("a:10|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
			disk.flush(f.Table, never)
		}
		state := f.AppendState(nil, 0)
		f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.Expression{Name: "a"}})
		f.reclaim(&pace{time.Now()})
		f.push("a:1|c|#pod:a,ns:ns")
		disk.flush(f.Table, never)
		if f.Blocks() != 1 || f.blocks.next != 1 {
			t.Fatal("the place was not used again: the test shows nothing")
		}
		for range 2 {
			again := disk.restore(t)
			again.want("a:total", "a=1")
			again.want("a:count", "a=1")
			// Names from after the rebirth, the state from before it.
			disk.names[0], disk.state[0] = f.AppendNames(nil, 0), state
		}
	})
}

// A block that cannot be read to its end is left empty, and can be used.
func TestRestoreOfADamagedBlock(t *testing.T) {
	f := newFixture(t)
	f.push("a:10|c|#pod:a,ns:ns", "t:10|ms|#pod:a,ns:ns", "b:10|c|#pod:a,ns:ns")
	delta := f.AppendDelta(nil, 0)
	again := newFixture(t)
	if err := again.RestoreBlock(0, nil, nil, slices.Values([][]byte{delta[:len(delta)-3]})); err == nil || err.Error() != "block 0: delta: damaged: not what was written" {
		t.Error(err)
	}
	again.RestoreDone()
	if n := again.Series(); n != 0 {
		t.Errorf("%d series are left", n)
	}
	again.push("a:1|c|#pod:a,ns:ns")
	again.want("a:total", "a=1")
}

// The same series in two places, as a crash between two blocks' writes can leave it: one of them
// stays.
func TestRestoreOfTwins(t *testing.T) {
	f := newFixture(t)
	f.push("a:10|c|#pod:a,ns:ns", "b:1|c|#pod:a,ns:ns")
	delta := f.AppendDelta(nil, 0)
	again := newFixture(t)
	for block := range 2 {
		must(t, again.RestoreBlock(block, nil, nil, slices.Values([][]byte{delta, delta})))
	}
	again.RestoreDone()
	again.want("a:total", "a=10")
	if n := again.Series(); n != 2 {
		t.Errorf("%d series, want 2", n)
	}
}

// With other windows than before, what was counted still counts: no rate is 0 for it. The bins of
// timers are dropped.
func TestRestoreWithOtherWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t).running(), newSaved()
		for range 30 {
			f.push("a:1|c|#pod:a,ns:ns", "g:4|g|#pod:a,ns:ns", "t:4|ms|#pod:a,ns:ns", "s:x|s|#pod:a,ns:ns", "f:0.5|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
		}
		disk.flush(f.Table, each)
		time.Sleep(50 * time.Minute) // stamps are far ahead of a new clock
		pushOne := func(f *fixture) {
			f.push("a:1|c|#pod:a,ns:ns", "g:4|g|#pod:a,ns:ns", "t:4|ms|#pod:a,ns:ns", "s:x|s|#pod:a,ns:ns", "f:0.5|c|#pod:a,ns:ns")
		}
		pushOne(f)
		disk.flush(f.Table, never)
		for i, windows := range [][]time.Duration{
			{20 * time.Second, 5 * time.Minute},
			{10 * time.Second, 30 * time.Second, time.Minute},
			{time.Minute},
		} {
			c := DefaultConfig()
			c.Windows = windows
			again := &fixture{Table: New(c, describeByPod, slog.New(slog.DiscardHandler)), t: t}
			if err := disk.into(again.Table); err != nil {
				t.Fatal(windows, err)
			}
			again.w = again.NewWriter()
			again.running()
			again.want("a:total", fmt.Sprintf("a=%d", 31+i))
			again.want("a:count:"+metric.FormatWindow(windows[0]), fmt.Sprintf("a=%d", 1+i))
			again.want("f:total", fmt.Sprintf("a=%v", 15.5+float64(i)/2))
			again.want("g", "a=4")
			again.want("s", "a=1")
			again.want("t:count", fmt.Sprintf("a=%d", 1+i))
			pushOne(again)
			again.want("a:count", fmt.Sprintf("a=%d", 2+i))
			again.want("t:count", fmt.Sprintf("a=%d", 2+i))
			disk = newSaved()
			disk.flush(again.Table, each)
			time.Sleep(10 * time.Minute)
			again.want("s", "a=0")
			again.want("t:count", "a=0")
		}
	})
}

func TestRestoreClockRefusesAnotherFormat(t *testing.T) {
	f := newFixture(t)
	blob := f.AppendClock(nil)
	blob[0] = 99
	if err := f.RestoreClock(blob); err == nil || err.Error() != "table format 99 is not known; this version reads 1 to 8" {
		t.Error(err)
	}
	if err := f.RestoreClock(nil); err == nil {
		t.Error("an empty clock is taken")
	}
}

// A disk may return anything: an error, never a panic, and the table stays sound.
func FuzzRestore(f *testing.F) {
	for _, table := range []*fixture{newFixture(f), newReplica(f)} {
		addSaved(f, table)
	}
	f.Fuzz(func(t *testing.T, names, state, delta []byte) {
		for _, again := range []*fixture{newFixture(t), newReplica(t)} {
			withstand(t, again, names, state, delta)
		}
	})
}

// addSaved adds the saved state of all kinds to the corpus.
func addSaved(f *testing.F, table *fixture) {
	for i := range 20 {
		table.push(fmt.Sprintf("c:%d.5|c|#pod:a,ns:ns,k:%d", i, i), fmt.Sprintf("t:%d|ms|#pod:a,ns:ns", i),
			fmt.Sprintf("g:%d|g|#pod:a,ns:ns|T1700000000", i), fmt.Sprintf("s:%d|s|#pod:a,ns:ns", i))
	}
	table.push("shifted:+1.5|g|#pod:a,ns:ns")
	if table.Replicated {
		table.AdoptSetSeed(1)
	}
	for i := range 3000 {
		table.push(fmt.Sprintf("m:%d|s", i))
	}
	p := newPushes(1)
	for range 3 {
		table.apply(p.next()...)
	}
	for i := range 20 {
		table.push(fmt.Sprintf("plain:%d|c|#pod:a,ns:ns,k:%d", i, i), fmt.Sprintf("level:-%d|g|#pod:a,ns:ns,k:%d", i, i))
	}
	delta := table.AppendDelta(nil, 0)
	f.Add(table.AppendNames(nil, 0), table.AppendState(nil, 0), delta)
	f.Add([]byte{}, []byte{}, delta)
}

// withstand restores a block that may be damaged, and uses the table.
func withstand(t *testing.T, again *fixture, names, state, delta []byte) {
	again.sameWindows = true
	again.RestoreBlock(0, names, state, slices.Values([][]byte{delta}))
	again.RestoreDone()
	again.push("c:1|c|#pod:a,ns:ns,new:one", "level:+1|g|#pod:a,ns:ns,k:1")
	again.Roll()
	again.all()
	again.answers()
	again.AppendState(nil, 0)
	checkBalance(t, again)
	again.w.Online()
	for _, s := range newPushes(1).next() {
		again.w.Apply(s)
	}
	again.w.Offline()
	again.Roll()
}

// damaged returns a copy with up to three other bytes, of which the end may be missing.
func damaged(r *rand.Rand, blob []byte) []byte {
	blob = bytes.Clone(blob)
	for range r.IntN(4) {
		blob[r.IntN(len(blob))] = byte(r.Uint32())
	}
	return blob[:len(blob)-r.IntN(2)*r.IntN(len(blob))]
}

// Damage in saved state is never a panic, wherever it is. FuzzRestore goes further.
func TestRestoreOfDamagedBlocks(t *testing.T) {
	for _, fixture := range []func(testing.TB) *fixture{newFixture, newReplica} {
		r := rand.New(rand.NewPCG(8, 9))
		f, p := fixture(t), newPushes(8)
		f.push("before:0|s|#pod:p1,ns:ns", "c:1|c|#pod:a,ns:ns", "shifted:+1.5|g|#pod:a,ns:ns", "exact:9007199254740993|g|#pod:a,ns:ns")
		if f.Replicated {
			f.AdoptSetSeed(1)
		}
		for range 3 {
			f.churn(r, p)
		}
		delta := f.AppendDelta(nil, 0)
		names, state := f.AppendBlockNames(nil, 0), f.AppendState(nil, 0)
		for range size(1000, 60, 15) {
			withstand(t, fixture(t), damaged(r, names), damaged(r, state), damaged(r, delta))
			withstand(t, fixture(t), names, damaged(r, state), nil)
			withstand(t, fixture(t), names, state, damaged(r, delta))
			withstand(t, fixture(t), nil, nil, damaged(r, delta))
		}
	}
}

// A run of numbers that names a place without a series is read over: its birth was rejected, or the
// delta is damaged.
func TestNumbersOfPlacesWithoutASeries(t *testing.T) {
	f := newFixture(t)
	f.push("c:7|c|#pod:a,ns:ns")
	clock, birth := f.AppendClock(nil), f.AppendDelta(nil, 0)
	empty := append(mark{stamp: 1}.append([]byte{recordNumbers}), 3, 0, 0, 1, 5, 14) // place 5
	again := newFixture(t)
	must(t, again.RestoreClock(clock))
	must(t, again.RestoreBlock(0, nil, nil, slices.Values([][]byte{birth, empty})))
	again.RestoreDone()
	again.Begin()
	again.want("c:total", "a=7")
}
