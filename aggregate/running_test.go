package aggregate

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// total makes a running total of pod a's counter.
func total(name string, v float64) *metric.Sample {
	s := &metric.Sample{Name: []byte(name), Kind: metric.Counter, Op: metric.Accumulate, Tags: []byte("pod:a,ns:ns"), Separator: ':'}
	s.SetFloat(v)
	return s
}

func started(s *metric.Sample, at int64) *metric.Sample { s.Started = at; return s }

func (f *fixture) apply(samples ...*metric.Sample) {
	f.t.Helper()
	f.w.Online()
	defer f.w.Offline()
	for _, s := range samples {
		if r := f.w.Apply(s); r != metric.Applied {
			f.t.Fatalf("%s: rejected: %s", s.Name, r)
		}
	}
}

func TestAccumulate(t *testing.T) {
	added := func(v float64) *metric.Sample { s := total("c", v); s.Op = metric.Add; return s }
	stamped := func(v float64, at int64) *metric.Sample {
		s := total("c", v)
		s.Dated = time.Now().Add(time.Duration(at) * time.Second).UnixNano()
		return s
	}
	for name, c := range map[string]struct {
		push         func() []*metric.Sample
		count, total string
	}{
		"the first is where it begins": {func() []*metric.Sample { return []*metric.Sample{total("c", 1000)} }, "0", "1000"},
		"what it grew by counts":       {func() []*metric.Sample { return []*metric.Sample{total("c", 1000), total("c", 1007)} }, "7", "1007"},
		"the same is no growth":        {func() []*metric.Sample { return []*metric.Sample{total("c", 9), total("c", 9)} }, "0", "9"},
		"a lower one began anew":       {func() []*metric.Sample { return []*metric.Sample{total("c", 1000), total("c", 3)} }, "3", "3"},
		"twice": {func() []*metric.Sample {
			return []*metric.Sample{total("c", 10), total("c", 4), total("c", 6), total("c", 5), total("c", 5)}
		}, "11", "5"},
		"to nothing": {func() []*metric.Sample { return []*metric.Sample{total("c", 10), total("c", 0), total("c", 2)} }, "2", "2"},
		"fractions": {func() []*metric.Sample { return []*metric.Sample{total("c", 0.75), total("c", 1.5), total("c", 0.25)} },
			"1", "0.25"},
		"fractions that borrow": {func() []*metric.Sample { return []*metric.Sample{total("c", 1.75), total("c", 3.25), total("c", 3)} },
			"4.5", "3"},
		"large": {func() []*metric.Sample {
			a, b := total("c", 0), total("c", 0)
			a.Whole, b.Whole = 1<<60-10, 1<<60-7
			return []*metric.Sample{a, b}
		}, "3", "1152921504606846969"},
		"below zero": {func() []*metric.Sample {
			return []*metric.Sample{total("c", -5), total("c", -3), total("c", -9), total("c", 1)}
		},
			"12", "1"},
		"a later start began anew, though higher": {func() []*metric.Sample {
			return []*metric.Sample{started(total("c", 10), 5), started(total("c", 12), 6), started(total("c", 13), 6)}
		}, "13", "13"},
		"an earlier start, or none, says nothing": {func() []*metric.Sample {
			return []*metric.Sample{started(total("c", 10), 5), started(total("c", 12), 4), total("c", 13), started(total("c", 14), 5)}
		}, "4", "14"},
		"the first start that is told says nothing": {func() []*metric.Sample {
			return []*metric.Sample{total("c", 10), started(total("c", 12), 4), started(total("c", 20), 5)}
		}, "22", "20"},
		"a late one changes nothing": {func() []*metric.Sample {
			return []*metric.Sample{stamped(10, -9), stamped(30, -3), stamped(20, -6), stamped(31, -3)}
		}, "21", "31"},
		"but not after a fresh start": {func() []*metric.Sample {
			return []*metric.Sample{started(stamped(10, -3), 1), started(stamped(4, -6), 2)}
		}, "4", "4"},
		"a lower one from 50 ms before, with the same start, is late": {func() []*metric.Sample {
			return []*metric.Sample{started(stamped(100, -9), 1), started(stamped(120, -3), 1), started(earlier(stamped(110, -3)), 1),
				started(stamped(119, -3), 1), started(stamped(130, -2), 1)}
		}, "30", "130"},
		"without a start, too": {func() []*metric.Sample {
			return []*metric.Sample{stamped(100, -9), stamped(120, -3), earlier(stamped(110, -3)), stamped(120, -3), stamped(130, -2)}
		}, "30", "130"},
		"a lower one from later began anew": {func() []*metric.Sample {
			return []*metric.Sample{started(earlier(stamped(120, -3)), 1), started(stamped(7, -3), 1)}
		}, "7", "7"},
		"an older one overtaken by the first": {func() []*metric.Sample {
			return []*metric.Sample{started(stamped(120, -3), 1), started(earlier(stamped(110, -3)), 1), started(stamped(125, -2), 1),
				started(stamped(90, -4), 1), started(stamped(115, -3), 1)}
		}, "35", "125"},
		"a higher one of an earlier date, after a clock was set back": {func() []*metric.Sample {
			return []*metric.Sample{started(stamped(120, 9), 1), started(stamped(130, -3), 1)}
		}, "10", "130"},
		"the clock of the client is ahead": {func() []*metric.Sample {
			return []*metric.Sample{stamped(100, 2), stamped(120, 5), earlier(stamped(110, 5)), stamped(130, 5)}
		}, "30", "130"},
		"the future counts as now": {func() []*metric.Sample {
			return []*metric.Sample{stamped(10, 3600), stamped(30, 0)}
		}, "20", "30"},
		"what others add counts beside it": {func() []*metric.Sample {
			return []*metric.Sample{added(5), total("c", 100), added(2), total("c", 100), total("c", 103), added(1), total("c", 4)}
		}, "15", "12"}, // 5+2+3+1+4; 4 of the client and 8 of others
		"fractions of others": {func() []*metric.Sample {
			return []*metric.Sample{added(0.5), total("c", 10.75), added(0.5), total("c", 0.75)}
		}, "1.75", "1.75"},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, func(f *fixture) {
				for _, s := range c.push() {
					f.apply(s)
					time.Sleep(700 * time.Millisecond)
				}
				f.want("c:count", "a="+c.count)
				f.want("c:total", "a="+c.total)
				checkBalance(t, f)
				time.Sleep(2 * time.Minute)
				f.want("c:count", "a=0")
				f.want("c:total", "a="+c.total)
			})
		})
	}
}

// Totals without a start time count on after the clocks of client and server were set back, and a lower one began anew.
func TestTotalsAfterClocksWereSetBack(t *testing.T) {
	start(t, func(f *fixture) {
		dated := func(v float64) *metric.Sample {
			s := total("c", v)
			s.Dated = f.w.Now.Wall.UnixNano()
			return s
		}
		f.w.Online()
		f.w.Apply(dated(100))
		f.w.Now.Wall = f.w.Now.Wall.Add(-time.Hour)
		for _, v := range []float64{110, 120, 3} {
			f.w.Now.Wall = f.w.Now.Wall.Add(time.Second)
			f.w.Apply(dated(v))
		}
		f.w.Offline()
		f.want("c:count", "a=23")
	})
}

// A backlog counts at the time that its client dates it: ten minutes' growth, pushed all at once,
// is no burst now.
func TestAccumulateOfABacklog(t *testing.T) {
	start(t, func(f *fixture) {
		time.Sleep(30 * time.Minute)
		now := time.Now()
		counts := []float64{0, 0}
		for ago := 10 * time.Minute; ago >= 0; ago -= 15 * time.Second {
			v := 1e6 + float64((10*time.Minute-ago)/time.Second)*10 // 10 a second
			c, h := total("c", v), pushOf(metric.Accumulate, histogram([]float64{1}, counts, 0))
			counts[0] += 150
			for _, s := range []*metric.Sample{c, h} {
				s.Dated, s.Late = now.Add(-ago).UnixNano(), ago > time.Minute
			}
			f.apply(c, h)
		}
		for _, name := range []string{"c", "t"} {
			if rate, count := f.value(name+":rate"), f.value(name+":count"); rate > 15 || count != 750 { // of five pushes, a window has four or five
				t.Errorf("%s: rate %v, count %v", name, rate, count)
			}
		}
		f.want("c:total", "a=1006000")
		time.Sleep(2 * time.Minute)
		f.want("c:count", "a=0")
	})
}

func TestAccumulateRefuses(t *testing.T) {
	start(t, func(f *fixture) {
		refuse := func(s *metric.Sample, want metric.Reason) {
			t.Helper()
			if got := f.w.Apply(s); got != want {
				t.Errorf("%+v: %s, want %s", s, got, want)
			}
		}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e19, 2e18, -2e18} {
			refuse(total("c", v), metric.BadValue)
		}
		gauge, merge, timer := total("c", 1), total("c", 1), total("c", 1)
		gauge.Kind, merge.Op, timer.Kind = metric.Gauge, metric.Merge, metric.Timer
		refuse(gauge, metric.Malformed)
		refuse(merge, metric.Malformed)
		refuse(timer, metric.Malformed)
		if n := f.Series(); n != 0 {
			t.Errorf("%d series, want none", n)
		}
		f.push("c:1|g|#pod:a,ns:ns")
		refuse(total("c", 1), metric.KindConflict)
	})
}

// R1: totals agree with a model through increases, resets with a start or without, fractions, adds
// beside them, pauses and restarts of the table.
func TestAccumulateModel(t *testing.T) {
	for seed := range uint64(size(30, 10, 4)) {
		synctest.Test(t, func(t *testing.T) {
			m := totalModel{f: newFixture(t).running(), r: rand.New(rand.NewPCG(seed, 5)), disk: newSaved()}
			time.Sleep(2*time.Minute + 123*time.Millisecond)
			m.client = float64(m.r.IntN(1000))
			m.f.apply(started(total("c", m.client), 1))
			for range 150 {
				time.Sleep(time.Duration(m.r.IntN(3000)) * time.Millisecond)
				m.step()
				m.check(t)
			}
			if applied, held := m.f.Balance(); applied != held || metric.Float(m.grown) != metric.Decimal(held[0], held[1]) {
				t.Errorf("seed %d: applied %v, held %v, grown %v", seed, applied, held, m.grown)
			}
		})
	}
}

type totalModel struct {
	f    *fixture
	r    *rand.Rand
	disk *saved

	client, added, grown float64
	lives                int64
	came                 []growth
}

type growth struct {
	at time.Time
	by float64
}

func (m *totalModel) grow(by float64) {
	m.grown += by
	m.came = append(m.came, growth{time.Now(), by})
}

func (m *totalModel) step() {
	switch by := float64(m.r.IntN(800)) / 8; m.r.IntN(10) {
	case 0: // a fresh start that shows by itself
		if m.client == 0 {
			return
		}
		m.client = math.Floor(m.r.Float64()*m.client*8) / 8
		m.f.apply(total("c", m.client), total("c", m.client))
		m.grow(m.client)
	case 1: // one that is told
		m.lives++
		m.client += by
		m.f.apply(started(total("c", m.client), 1+m.lives))
		m.grow(m.client)
	case 2, 3:
		s := total("c", by)
		s.Op = metric.Add
		m.f.apply(s)
		m.added += by
		m.grow(by)
	case 4:
		m.disk.flush(m.f.Table, func(int) bool { return m.r.IntN(3) == 0 })
		m.f = m.disk.restore(m.f.t.(*testing.T)).running()
	default:
		m.client += by
		m.f.apply(total("c", m.client))
		m.grow(by)
	}
}

// check compares the total, and the windows: what came in them, but for one push more or less: a
// pause is at most 3 s and two ticks.
func (m *totalModel) check(t *testing.T) {
	t.Helper()
	m.f.want("c:total", "a="+print(metric.Float(m.client+m.added)))
	for _, w := range []time.Duration{10 * time.Second, time.Minute} {
		least, most := 0.0, 0.0
		for _, g := range m.came {
			ago := time.Since(g.at)
			if ago < w-5*time.Second {
				least += g.by
			}
			if ago < w+5*time.Second {
				most += g.by
			}
		}
		p, err := m.f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a",
			Expression: metric.Expression{Name: "c", Stat: metric.Count, Window: w}})
		must(t, err)
		if v := p[0].Value.Float64(); v < least || v > most {
			t.Fatalf("count over %s is %v, want %v to %v", w, v, least, most)
		}
	}
}

// A1: what is added beside a running total waits for no lock.
func TestA1AddsBesideATotalNeverWait(t *testing.T) {
	f := newFixture(t)
	f.apply(total("c", 10))
	f.push("c:1|c|#pod:a,ns:ns", "c:0.5|c|#pod:a,ns:ns")
	f.whileLocked(func() { f.push("c:1|c|#pod:a,ns:ns", "c:0.5|c|#pod:a,ns:ns") })
}

// A2: running totals with resets, adds beside them, readers, saving, deletion and expiry all at
// once.
func TestA2RunningTotals(t *testing.T) {
	c := DefaultConfig()
	c.Windows = []time.Duration{time.Second, 6 * time.Second}
	table := New(c, describeByPod, slog.New(slog.DiscardHandler))
	var writers sync.WaitGroup
	rest := disturb(table, evictSome)
	for n := range 3 {
		writers.Go(func() {
			w := table.NewWriter()
			defer w.Close()
			r := rand.New(rand.NewPCG(uint64(n), 2))
			for batch := 0; batch < size(4000, 200, 50) || table.evicted.Load() < 20; batch++ {
				for range 64 {
					s := sample(fmt.Sprintf("c%d:%d|c|#pod:p%d,ns:ns", r.IntN(4), r.IntN(1000), r.IntN(9)))
					s.Fraction = float64(r.IntN(4)) / 4
					if r.IntN(3) > 0 {
						s.Op = metric.Accumulate
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
	if applied, held := table.Balance(); applied != held || applied[0] == 0 {
		t.Errorf("applied %v, held %v", applied, held)
	}
}

// A total that is pushed while its series is removed begins a new series: it is no growth.
func TestAccumulateAfterTheEnd(t *testing.T) {
	start(t, func(f *fixture) {
		f.apply(total("c", 10), total("c", 15))
		b, place := f.blocks.of(0)
		gone := lookup.Ref{Number: 0, State: b.page.cells[place].State.Load()}
		f.Delete(podQuery("c"))
		f.w.Online()
		if r := f.w.applyPreAggregated(gone, total("c", 100)); r != metric.Applied { // looked up before the end
			t.Fatal(r)
		}
		f.w.Offline()
		f.want("c:count", "a=0")
		f.want("c:total", "a=100")
		if applied, held := f.Balance(); applied != held || applied[0] != 5 {
			t.Errorf("applied %v, held %v", applied, held)
		}
	})
}

// A total that was held until its sender was known counts when it came.
func TestHeldTotals(t *testing.T) {
	start(t, func(f *fixture) {
		f.apply(total("c", 10))
		time.Sleep(5 * time.Second)
		came := time.Now()
		time.Sleep(15 * time.Second)
		s := total("c", 30)
		s.Arrived = came.UnixNano()
		f.apply(s)
		f.want("c:count", "a=20")
		f.want("c:count:10s", "a=0")
	})
}

// Memory: what a running total takes is accounted for, bounded, and given back.
func TestA6RunningTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes = 1 << 20
		f := newFixtureOf(t, c).running()
		f.apply(total("c", 1), total("c", 1))
		if got := f.BodyBytes.Load(); got != kind.RunningBytes {
			t.Errorf("%d bytes, want %d", got, kind.RunningBytes)
		}
		f.Delete(podQuery("c"))
		time.Sleep(2 * time.Second)
		if got := f.BodyBytes.Load(); got != 0 {
			t.Errorf("%d bytes are held by nobody", got)
		}
		f.apply(total("c", 1))
		f.push("later:1|c|#pod:a,ns:ns")
		f.BodyBytes.Add(c.MaxBytes)
		f.apply(total("c", 2)) // what is there goes on
		f.w.Online()
		if r := f.w.Apply(total("later", 2)); r != metric.OverLimit {
			t.Errorf("%s, want limit", r)
		}
		f.w.Offline()
		f.BodyBytes.Add(-c.MaxBytes)
		for range 3 {
			f.apply(total("c", 2))
			time.Sleep(3 * time.Second)
		}
		if n, _ := f.Logs.Used(); n != 1 {
			t.Errorf("%d logs, want 1: fractions that nobody has are noted", n)
		}
	})
}

func TestA3NoAllocationOfTotals(t *testing.T) {
	f := newFixture(t)
	s := total("c", 1)
	f.apply(s)
	f.w.Online()
	if n := testing.AllocsPerRun(1000, func() { s.Whole++; f.w.Apply(s); f.w.Quiesce() }); n > 2 { // the test's describer makes a slice, and one more with -race
		t.Errorf("%v allocations", n)
	}
	if !strings.HasPrefix(f.ask("c:total"), "a=10") {
		t.Error(f.ask("c:total"))
	}
}
