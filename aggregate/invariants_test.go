package aggregate

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// A1: a sample of a known series is applied while every lock of the table is held by somebody else.
func TestA1WritersNeverWait(t *testing.T) {
	f := newFixture(t)
	lines := []string{"c:1|c|#pod:a,ns:ns", "c:0.5|c|#pod:a,ns:ns", "g:1|g|#pod:a,ns:ns", "g:+1|g|#pod:a,ns:ns",
		"g:1|g|#pod:a,ns:ns|T1700000000", "t:1|ms|#pod:a,ns:ns", "s:1|s|#pod:a,ns:ns"}
	f.push(lines...)
	rejected := sample("c:1|g|#pod:a,ns:ns")
	f.w.Online()
	f.w.Apply(rejected)

	f.whileLocked(func() {
		for _, line := range lines {
			if r := f.w.Apply(sample(line)); r != metric.Applied {
				t.Errorf("%s: %s", line, r)
			}
			f.w.Quiesce()
		}
		if r := f.w.Apply(rejected); r != metric.KindConflict {
			t.Errorf("rejected: %s", r)
		}
		f.w.Offline()
		f.w.Online()
	})
}

// whileLocked runs work of a writer while every lock of the table is held. Work that takes a lock
// never ends.
func (f *fixture) whileLocked(work func()) {
	f.t.Helper()
	f.t.Cleanup(holdAllLocks(f.Table))
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		f.t.Fatal("a writer waits for a lock")
	}
}

func holdAllLocks(t *Table) (release func()) {
	var held []sync.Locker
	hold := func(l sync.Locker) { l.Lock(); held = append(held, l) }
	hold(&t.evictions.mu)
	hold(&t.sumsMu)
	hold(&t.blocks.mu)
	hold(t.Logs.Locker())
	hold(t.Timers.Locker())
	hold(t.Epochs.Locker())
	hold(&t.removals.mu)
	for i := range t.blocks.made.Load() {
		hold(&t.blocks.at[i].Load().history)
	}
	for i := range t.canon.Shards {
		hold(&t.canon.Shards[i].Mu)
		hold(&t.aliases.Slots.Shards[i].Mu)
	}
	for i := range t.index.Shards {
		hold(&t.index.Shards[i].Mu)
	}
	return func() {
		for _, l := range held {
			l.Unlock()
		}
	}
}

// A2: with writers, readers, turning windows, expiry, deletion and saving all at once, every
// increment is in exactly one place.
func TestA2NothingIsLostOrCountedTwice(t *testing.T) {
	c := DefaultConfig()
	c.Windows = []time.Duration{time.Second, 6 * time.Second}
	c.ObjectTTL, c.ExternalTTL = time.Second, time.Second
	table := New(c, describeByPod, slog.New(slog.DiscardHandler))
	var writers sync.WaitGroup
	// Expiry takes whole seconds; here the sweep is hurried, and takes what has been idle for a
	// moment.
	rest := disturb(table, evictSome)

	var sent, fractions atomic.Int64
	for n := range 4 {
		writers.Go(func() {
			w := table.NewWriter()
			defer w.Close()
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for batch := 0; batch < size(4000, 400, 100) || table.evicted.Load() < 20; batch++ {
				for range 64 {
					s := sample(fmt.Sprintf("c%d:%d|c|#pod:p%d,ns:ns,k:%d", r.IntN(4), r.IntN(9)-2, r.IntN(9), r.IntN(20)))
					if r.IntN(4) == 0 {
						s.Fraction = 0.25
						s.Whole = max(s.Whole, 0)
						fractions.Add(1)
					}
					if got := w.Apply(s); got != metric.Applied {
						t.Errorf("rejected: %s", got)
					}
					sent.Add(s.Whole)
				}
				w.Quiesce()
			}
		})
	}
	writers.Wait()
	rest()
	applied, held := table.Balance()
	if applied != held {
		t.Errorf("applied %v, held %v", applied, held)
	}
	want := [2]int64{sent.Load() + fractions.Load()/4, fractions.Load() % 4 * (kind.FractionUnits / 4)}
	if applied != want {
		t.Errorf("applied %v, sent %v", applied, want)
	}
	table.reclaim(&pace{time.Now()}) // late samples of series that ended just now begin others
	// All goes, and the sum stands.
	var all []lookup.Ref
	for number := range uint32(table.Blocks() * kind.BlockSeries) {
		b, place := table.blocks.of(number)
		if state := b.page.cells[place].State.Load(); state&kind.Live != 0 {
			all = append(all, lookup.Ref{Number: number, State: state})
		}
	}
	table.evict(all, deleted, table.Clock.Now())
	table.reclaim(&pace{time.Now()})
	if _, held := table.Balance(); held != applied || table.Series() != 0 || len(table.evictions.tombstones) != 0 {
		t.Errorf("after the end: applied %v, held %v, %d series, %d in limbo", applied, held, table.Series(), len(table.evictions.tombstones))
	}
}

// size chooses how much of its work a test repeats: all of it with SLUICE_LONG=1, little with -short.
func size(long, usual, short int) int {
	switch {
	case os.Getenv("SLUICE_LONG") != "":
		return long
	case testing.Short():
		return short
	}
	return usual
}

// disturb runs the roller, readers, the store and deletions, and what else is given, until rest is
// called.
func disturb(table *Table, more ...func(context.Context, *Table)) (rest func()) {
	ctx, stop := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { table.Run(ctx) })
	for _, one := range append(more, readAll, saveAll, deleteSome) {
		helpers.Go(func() { one(ctx, table) })
	}
	return func() { stop(); helpers.Wait() }
}

func readAll(ctx context.Context, t *Table) {
	for ctx.Err() == nil {
		for _, asked := range []string{"c0", "c1:count:1s", "c2:total", "c3:rate:6s"} {
			t.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
		}
		t.Listed(10)
		t.Balance()
		time.Sleep(time.Millisecond)
	}
}

func saveAll(ctx context.Context, t *Table) {
	for ctx.Err() == nil {
		for i := range t.Blocks() {
			t.AppendDelta(nil, i)
			t.AppendNames(nil, i)
			t.AppendState(nil, i)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func deleteSome(ctx context.Context, t *Table) {
	for n := 0; ctx.Err() == nil; n++ {
		t.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: fmt.Sprintf("p%d", n%9), Expression: metric.Expression{Name: "c0"}})
		time.Sleep(5 * time.Millisecond)
	}
}

// evictSome expires series that are in use, as if a sample had come at the very moment of their
// expiry: late samples have to find their way to the successor.
func evictSome(ctx context.Context, t *Table) {
	r := rand.New(rand.NewPCG(7, 7))
	for ctx.Err() == nil {
		for i := range uint32(t.Blocks()) {
			place := uint32(r.IntN(kind.BlockSeries))
			b := t.blocks.at[i].Load()
			state := b.page.cells[place].State.Load()
			if state&kind.Live == 0 {
				continue
			}
			b.history.Lock()
			bit := uint64(1) << (place % 64)
			b.page.dirty[place/64].And(^bit)
			b.page.cells[place].Seen.Store(0)
			b.history.Unlock()
			t.evict([]lookup.Ref{{Number: i<<kind.BlockBits | place, State: state}}, expired, t.Clock.Now())
		}
		time.Sleep(time.Millisecond)
	}
}

// A2: what comes for a series between its expiry and the moment that its place is free goes to its
// successor.
func TestA2LateSamplesGoToTheSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		lines := []string{"c:2|c|#pod:a,ns:ns", "c:0.5|c|#pod:a,ns:ns", "g:4|g|#pod:a,ns:ns", "t:8|ms|#pod:a,ns:ns", "s:x|s|#pod:a,ns:ns"}
		f.push(lines...)
		f.Roll()
		time.Sleep(2 * time.Hour)
		slow := f.NewWriter() // looked its series up before the expiry, applies after it
		var found []lookup.Ref
		for _, line := range lines {
			key := f.aliases.KeyOf(sample(line))
			found = append(found, lookup.TargetRef(f.aliases.Find(&key).Target.Load()))
		}
		for place := range f.Blocks() {
			f.sweepBlock(uint32(place), f.Clock.Now(), &pace{time.Now()})
		}
		f.reclaim(&pace{time.Now()})
		if len(f.evictions.tombstones) != 4 {
			t.Fatalf("%d in limbo, want 4: a writer has not passed", len(f.evictions.tombstones))
		}
		for i, line := range lines {
			b, place := f.blocks.of(found[i].Number)
			slow.updateNow(b, place, sample(line))
		}
		f.want("c:total", `no series of "c" for pods in "ns"; last seen 2h ago, expired after 1h`)
		slow.Quiesce()
		f.reclaim(&pace{time.Now()})
		f.want("c:total", "a=2.5") // the late ones alone
		f.want("g", "a=4")
		f.want("t:sum", "a=8")
		f.want("t:count", "a=1")
		f.want("s", "a=1")
		slow.Close()
		if applied, held := f.Balance(); applied != held || applied[0] != 5 {
			t.Errorf("applied %v, held %v", applied, held)
		}
	})
}

// A3: nothing is allocated for a sample of a known series, in whatever order its tags come.
func TestA3NoAllocation(t *testing.T) {
	f := newFixture(t)
	for _, line := range []string{"c:1|c|#pod:a,ns:ns,k:v", "c:1|c|@0.3|#pod:a,ns:ns,k:v", "g:1|g|#pod:a,ns:ns", "g:+1|g|#pod:a,ns:ns",
		"h:1|g|#pod:a,ns:ns|T1700000000", "t:17|ms|#pod:a,ns:ns", "t:17|ms|@0.1|#pod:a,ns:ns", "s:member|s|#pod:a,ns:ns"} {
		f.push(line)
		s := sample(line)
		f.w.Online()
		if n := testing.AllocsPerRun(1000, func() { f.w.Apply(s); f.w.Quiesce() }); n != 0 {
			t.Errorf("%s: %v allocations, want none", line, n)
		}
	}
	rejected := sample("c:1|g|#pod:a,ns:ns,k:v")
	f.w.Apply(rejected)
	if n := testing.AllocsPerRun(1000, func() { f.w.Apply(rejected) }); n != 0 {
		t.Errorf("rejected: %v allocations, want none", n)
	}
	orders := permutations([]string{"pod:a", "ns:ns", "k:v", "l:w", "m:x"})
	lines := make([]*metric.Sample, len(orders))
	for i, tags := range orders {
		lines[i] = sample("o:1|c|#" + tags)
		f.w.Apply(lines[i])
	}
	f.want("o:total", fmt.Sprintf("a=%d", len(orders)))
	if n, _ := f.aliases.Size(); n > 6+maxAliases+1 {
		t.Errorf("%d aliases: orders of tags fill memory", n)
	}
}

func permutations(of []string) (out []string) {
	if len(of) == 1 {
		return of
	}
	for i := range of {
		rest := append(append([]string{}, of[:i]...), of[i+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, of[i]+","+p)
		}
	}
	return out
}

// A4, and D1, D2, D3, D4 of timers: while writers write, the parts of one answer differ by no more
// than a sample for each writer.
func TestA4OneSnapshot(t *testing.T) {
	f := newFixture(t).running()
	f.push("t:10|ms|#pod:a,ns:ns", "c:7.5|c|#pod:a,ns:ns")
	const writers = 3
	var stop atomic.Bool
	var applied atomic.Int64
	applied.Store(1)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			w := f.NewWriter()
			defer w.Close()
			observed, counted := sample("t:10|ms|#pod:a,ns:ns"), sample("c:7.5|c|#pod:a,ns:ns")
			for !stop.Load() {
				w.Apply(observed)
				w.Apply(counted)
				applied.Add(1)
				w.Quiesce()
			}
		})
	}
	for range size(2000, 150, 60) {
		// The parts of one answer, as a reading has them before it picks one.
		r, series, err := f.planOf(&metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression("t:mean")})
		must(t, err)
		r.begin()
		r.add(series)
		if r.Distribution.Total == 0 || r.Distribution.Sum != 10*float64(r.Distribution.Total/kind.WeightUnits) {
			t.Fatalf("%d observations of 10 have the sum %v", r.Distribution.Total/kind.WeightUnits, r.Distribution.Sum)
		}
		r.end()
		begun := applied.Load()
		// No less than what was applied before the read, no more than what was by its end.
		if v := f.value("c:total"); v < 7.5*float64(begun) || v > 7.5*float64(applied.Load()+writers) {
			t.Fatalf("total %v, but %v were applied before the read and %v by its end", v, 7.5*float64(begun), 7.5*float64(applied.Load()))
		}
	}
	stop.Store(true)
	group.Wait()
}

// A5: a roll records what was touched, not what exists.
func TestA5TickCostFollowsActiveSeries(t *testing.T) {
	f := newFixture(t)
	for i := range 3 * kind.BlockSeries {
		f.push(fmt.Sprintf("c:1|c|#pod:p%d,ns:ns", i))
	}
	rolled := func() (words uint32, series int) {
		for i := range f.Blocks() {
			b := f.blocks.at[i].Load()
			for word := range kind.BlockWords {
				words -= b.recorded[word].Load()
				b.unsaved[word].Store(0)
			}
		}
		f.Roll()
		for i := range f.Blocks() {
			b := f.blocks.at[i].Load()
			for word := range kind.BlockWords {
				words += b.recorded[word].Load()
				series += bits.OnesCount64(b.unsaved[word].Load())
			}
		}
		return words, series
	}
	for _, touched := range []uint32{3 * kind.BlockSeries, 0, 1, 2} {
		for i := range touched {
			f.push(fmt.Sprintf("c:1|c|#pod:p%d,ns:ns", i*1000%(3*kind.BlockSeries)))
		}
		words, series := rolled()
		if limit := min(touched, 3*kind.BlockWords); words > limit || series != int(touched) {
			t.Errorf("%d series were touched: a roll recorded %d in %d words", touched, series, words)
		}
	}
}

// A6: places, logs and aliases of what is gone are used again.
func TestA6MemoryIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.ObjectTTL = time.Minute
		f := newFixtureOf(t, c).running()
		var blocks int
		var logs int64
		var aliases int64
		for round := range size(8, 5, 5) {
			for range 3 {
				for i := range size(3000, 3000, 1200) {
					f.push(fmt.Sprintf("c:1|c|#pod:r%d-%d,ns:ns", round, i))
				}
				time.Sleep(2 * time.Second)
			}
			time.Sleep(3 * time.Minute) // beyond the lifetime, and for a sweep over all aliases
			if n := f.Series(); n != 0 {
				t.Fatalf("round %d: %d series outlive their time", round, n)
			}
			if n, _ := f.Logs.Used(); n != 0 {
				t.Fatalf("round %d: %d logs are in use by nobody", round, n)
			}
			_, bytes := f.aliases.Size()
			if round == 3 {
				blocks, aliases = f.Blocks(), bytes
				_, logs = f.Logs.Used()
			}
		}
		if _, bytes := f.Logs.Used(); f.Blocks() != blocks || bytes != logs {
			t.Errorf("blocks grew from %d to %d, logs from %d to %d bytes", blocks, f.Blocks(), logs, bytes)
		}
		if n, bytes := f.aliases.Size(); n > 0 || bytes > aliases*5/4 {
			t.Errorf("%d aliases of nothing, %d bytes, were %d", n, bytes, aliases)
		}
	})
}

// A6: a cap is kept, and what is rejected for it comes in once there is room.
func TestA6SeriesCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxSeries = 10
		f := newFixtureOf(t, c).running()
		for i := range 10 {
			f.push(fmt.Sprintf("c:1|c|#pod:p%d,ns:ns", i))
		}
		f.refuses("c:1|c|#pod:p10,ns:ns", metric.OverLimit)
		f.refuses("c:1|c|#pod:p10,ns:ns", metric.OverLimit)
		f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "p3", Expression: metric.Expression{Name: "c"}})
		f.push("c:1|c|#pod:p10,ns:ns")
		f.refuses("c:1|c|#pod:p11,ns:ns", metric.OverLimit)
	})
}

// A6: what has no fixed size stays under its cap: names and labels, aliases, timers' bins, sets'
// members.
func TestA6BytesCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes = 1 << 20
		f := newFixtureOf(t, c).running()
		f.push("t:1|ms|#pod:a,ns:ns", "s:1|s|#pod:a,ns:ns", "c:1|c|#pod:a,ns:ns")
		f.w.Online()
		rejected := 0
		for i := range 20_000 {
			long := strings.Repeat("x", 200)
			if f.w.Apply(sample(fmt.Sprintf("c:1|c|#pod:a,ns:ns,l%d:%s", i, long))) == metric.OverLimit {
				rejected++
			}
		}
		f.w.Quiesce()
		held := f.BodyBytes.Load() + f.nameBytes.Load() + f.aliases.Used.Load()
		if rejected == 0 || held > c.MaxBytes+1024 {
			t.Errorf("%d rejected, %d bytes held, want at most %d", rejected, held, c.MaxBytes)
		}
		for i := range 2 * kind.LinePlaces { // bins that all want one line
			f.w.Online()
			f.w.Apply(sample(fmt.Sprintf("t:%v|ms|#pod:a,ns:ns", math.Pow(kind.Ratio, float64(i*kind.TimerLines*kind.LineBins)))))
		}
		distant := fmt.Sprintf("t:%v|ms|#pod:a,ns:ns", math.Pow(kind.Ratio, 2*kind.LinePlaces*kind.TimerLines*kind.LineBins))
		f.refuses(distant, metric.OverLimit) // a bin it has no place for
		f.push("t:1|ms|#pod:a,ns:ns", "s:1|s|#pod:a,ns:ns", "c:1|c|#pod:a,ns:ns")
		for i := range 100 {
			f.w.Apply(sample(fmt.Sprintf("s:%d|s|#pod:a,ns:ns", i)))
		}
		f.refuses("s:100|s|#pod:a,ns:ns", metric.OverLimit)
		f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.Expression{Name: "c"}})
		f.w.Offline()
		time.Sleep(5 * time.Minute) // places are free at once, aliases after a sweep
		if held := f.nameBytes.Load() + f.aliases.Used.Load(); held > 1000 {
			t.Errorf("%d bytes of names and aliases are held by nobody", held)
		}
		f.push(distant, "c:1|c|#pod:a,ns:ns,new:one")
	})
}

// A6: rejections are remembered, but do not fill memory.
func TestA6RefusalsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.w.Online()
	for i := range maxRejections + 5000 {
		f.w.Apply(sample(fmt.Sprintf("c%d:1|c|#refuse:me", i)))
	}
	if n, _ := f.aliases.Size(); n > maxRejections {
		t.Errorf("%d aliases, want at most %d", n, maxRejections)
	}
	f.w.Quiesce()
	f.retryEpoch.Add(1)
	for range lookup.SlotShards {
		f.sweepAliases()
	}
	if n := f.rejections.Load(); n != 0 {
		t.Errorf("%d rejections count once all are outdated and swept", n)
	}
}

// A6: what a timer and a set cost is what the published figures say.
func TestA6BodyBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		time.Sleep(time.Minute + 100*time.Millisecond) // so that nothing comes while the roller is at it
		for range 70 {
			for i := range 60 {
				f.push(fmt.Sprintf("t:%g|ms|#pod:a,ns:ns", 10*math.Pow(1.025, float64(i))))
			}
			for i := range 1000 {
				f.push(fmt.Sprintf("s:user-%d|s|#pod:a,ns:ns", i))
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for i := range f.blocks.made.Load() {
			for place := range uint32(kind.BlockSeries) {
				body := f.blocks.at[i].Load().body(place)
				switch {
				case body == nil:
				case body.Timer != nil:
					live := f.Timers.Of(&f.blocks.at[i].Load().page.cells[place])
					bytes, weight := body.Timer.BytesLocked(live), body.Timer.Weight(live)
					t.Logf("timer of 60 bins: %d bytes, accounted for %d", bytes, weight)
					if bytes > 3<<10 || weight < bytes {
						t.Errorf("a timer of 60 bins takes %d bytes, accounted for %d; want at most 3 KiB", bytes, weight)
					}
				default:
					if t.Logf("set of 1,000 members: %d bytes", body.Set.BytesLocked()); body.Set.BytesLocked() > 24<<10 {
						t.Errorf("a set of 1,000 members takes %d bytes, want at most 24 KiB", body.Set.BytesLocked())
					}
				}
			}
		}
	})
}

// Each numbered invariant of the table's packages is defined once, as "//   - A1 …", and the
// comment of a test names it.
func TestEveryInvariantHasATest(t *testing.T) {
	definition := regexp.MustCompile(`(?m)^\s*//   - ([A-Z][0-9]) `)
	label := regexp.MustCompile(`\b[A-Z][0-9]\b`)
	defined, tested := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "// ") {
					for _, one := range label.FindAllString(line, -1) {
						tested[one] = true
					}
				}
			}
			return nil
		}
		for _, found := range definition.FindAllStringSubmatch(string(text), -1) {
			if before, twice := defined[found[1]]; twice {
				t.Errorf("%s is defined in %s and in %s; a label has one definition", found[1], before, path)
			}
			defined[found[1]] = path
		}
		return nil
	})
	must(t, err)
	if len(defined) < 20 {
		t.Errorf("%d invariants are defined; the test does not see what it should", len(defined))
	}
	for one, path := range defined {
		if !tested[one] {
			t.Errorf("%s, defined in %s, is named by no test", one, path)
		}
	}
}
