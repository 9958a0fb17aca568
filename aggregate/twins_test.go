package aggregate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// fleet are tables that receive samples of the same series, and what each knows of the others.
type fleet struct {
	t       testing.TB
	origins []*fixture
	disks   []*saved
	shadows []map[int]*Shadow // by the origin that has them, then by the origin that they are of
}

func newFleet(t testing.TB, n int) *fleet {
	return newFleetAfter(t, n, 6*time.Second) // the lifetime clocks differ, but no units of windows
}

// newReplica is newFixture for a replica.
func newReplica(t testing.TB) *fixture {
	c := DefaultConfig()
	c.Replicated = true
	return newFixtureOf(t, c)
}

// newFleetAfter makes origins that begin one after the other.
func newFleetAfter(t testing.TB, n int, pause time.Duration) *fleet {
	r := &fleet{t: t}
	for range n {
		r.origins = append(r.origins, newReplica(t))
		r.disks = append(r.disks, newSaved())
		time.Sleep(pause)
	}
	for _, f := range r.origins {
		f.w.Offline()
	}
	return r
}

// exchange flushes all origins and brings their states to the others.
func (r *fleet) exchange() {
	for i, f := range r.origins {
		r.disks[i].flush(f.Table, func(int) bool { return rand.IntN(4) == 0 })
	}
	for i := range r.origins {
		for j := range r.origins {
			if i != j {
				r.replicate(j, i)
			}
		}
	}
}

// replicate brings the state of an origin, as of its last flush, to another one's shadow of it: by
// its newest delta, or whole.
func (r *fleet) replicate(from, to int) {
	fresh := to >= len(r.shadows) || r.shadows[to][from] == nil
	s, disk := r.shadow(from, to), r.disks[from]
	must(r.t, s.Advance(disk.clock, 0))
	for block := range r.origins[from].Blocks() {
		err := error(nil)
		if deltas := disk.deltas[block]; len(deltas) > 0 && !fresh && rand.IntN(4) > 0 {
			err = s.ApplyDelta(block, deltas[len(deltas)-1])
		} else {
			err = s.ReplaceBlock(block, r.origins[from].AppendBlockNames(nil, block), r.origins[from].AppendBlockState(nil, block))
		}
		must(r.t, err)
	}
}

// shadow returns an origin's shadow at another one.
func (r *fleet) shadow(of, at int) *Shadow {
	for len(r.shadows) <= at {
		r.shadows = append(r.shadows, map[int]*Shadow{})
	}
	all := r.shadows[at]
	if all[of] == nil {
		s := NewShadow(r.origins[of].config, quiet())
		s.SetOwn(r.origins[at].Table)
		must(r.t, s.Begin(r.disks[of].clock))
		all[of] = s
		r.origins[at].SetTwins(func(yield func(*Table, Twins) bool) {
			for _, of := range slices.Sorted(maps.Keys(all)) {
				if !yield(all[of].Table(), Twins{First: of < at}) {
					return
				}
			}
		})
	}
	return all[of]
}

func eachPlace(t *Table, f func(b *block, place uint32)) {
	for i := range t.blocks.made.Load() {
		b := t.blocks.at[i].Load()
		for place := range uint32(kind.BlockSeries) {
			if b.page.cells[place].State.Load()&kind.Live != 0 {
				f(b, place)
			}
		}
	}
}

// tables returns the table of every origin as replica i knows it.
func (r *fleet) tables(i int) (all []*Table) {
	for j := range r.origins {
		if j == i {
			all = append(all, r.origins[i].Table)
		} else {
			all = append(all, r.shadow(j, i).Table())
		}
	}
	return all
}

// twinsOf calls f for each series of a metric's name.
func twinsOf(all []*Table, name string, f func(t *Table, h kind.Series)) {
	for _, t := range all {
		eachPlace(t, func(b *block, place uint32) {
			if b.series[place].entry.Family.Key.Name == name {
				b.history.Lock()
				defer b.history.Unlock()
				f(t, b.handle(place))
			}
		})
	}
}

// gauge returns the merged value of a gauge at replica i.
func (r *fleet) gauge(i int, name string) metric.Number {
	var parts []kind.GaugePart
	own := r.origins[i].Table
	twinsOf(r.tables(i), name, func(t *Table, h kind.Series) {
		if p, set := kind.GaugePartLocked(h); set {
			p.Ahead, p.Rank = time.Duration(own.aheadOf(t))*time.Millisecond, len(parts)
			parts = append(parts, p)
		}
	})
	n, _ := kind.MergeGauges(parts)
	return n
}

// wantGauge checks the merged value at every replica.
func (r *fleet) wantGauge(name string, want metric.Number) {
	r.t.Helper()
	for i := range r.origins {
		if got := r.gauge(i, name); got != want {
			r.t.Fatalf("%s at replica %d: %s, want %s", name, i, got.Append(nil), want.Append(nil))
		}
	}
}

// A gauge moves between origins as if they were one table: assignments and shifts at random (O1, O2), shifts alone at
// first (O3), with news in between, clocks apart, restarts.
func TestRandomGaugesOfReplicas(t *testing.T) {
	for seed := range uint64(size(20, 8, 3)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := newFleet(t, 1+random.IntN(4))
			want := metric.Int(0)
			for range 40 {
				f := r.origins[random.IntN(len(r.origins))]
				v := metric.Decimal(random.Int64N(1<<54)-1<<53, random.Int64N(1e9))
				s := sample("g:1|g|#pod:a,ns:ns")
				whole, nano, _ := v.Decimal()
				s.Whole, s.Fraction = whole, float64(nano)/1e9
				if random.IntN(3) > 0 {
					s.Op = metric.Shift
					want = want.Plus(s.Number())
				} else {
					want = s.Number()
				}
				f.w.Online()
				f.w.Apply(s)
				f.w.Offline()
				time.Sleep(time.Duration(1+random.IntN(600)) * time.Millisecond)
				r.exchange()
				r.wantGauge("g", want)
				if random.IntN(8) == 0 {
					r.restart(random.IntN(len(r.origins)))
					r.wantGauge("g", want)
				}
			}
		})
	}
}

// restart replaces an origin by a process that restores its state.
func (r *fleet) restart(i int) {
	r.disks[i].flush(r.origins[i].Table, each)
	table := New(r.origins[i].config, describeByPod, quiet())
	must(r.t, r.disks[i].into(table))
	r.origins[i] = &fixture{Table: table, t: r.t, w: table.NewWriter()}
	r.origins[i].w.Offline()
	if i < len(r.shadows) {
		r.shadows[i] = map[int]*Shadow{}
	}
	r.exchange()
}

// parts is the number of origins of which replica i knows a living series of a pod.
func (r *fleet) parts(i int, pod string) (n int) {
	for _, table := range r.tables(i) {
		eachPlace(table, func(b *block, place uint32) {
			if b.series[place].entry.Name == pod && !table.hasExpired(b, place, table.Clock.Now()) {
				n++
			}
		})
	}
	return n
}

// What a client pushed to the replica that it left is a part of its series, which lives on there as long as anything
// is pushed elsewhere, and no longer: no total falls.
func TestPartsLiveWithTheirTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t, 2)
		r.origins[1].push("jobs:5|c|#pod:a,ns:ns", "jobs:7|c|#pod:gone,ns:ns")
		r.exchange()
		pass := func() {
			time.Sleep(time.Minute)
			for _, f := range r.origins {
				f.sweep()
			}
			r.exchange()
		}
		for i := range 150 {
			if i%10 == 0 {
				r.origins[0].push("jobs:1|c|#pod:a,ns:ns")
			}
			pass()
			if n := r.parts(0, "a"); n != 2 {
				t.Fatalf("after %d minutes, replica 0 has %d of the 2 parts", i, n)
			}
		}
		r.origins[1].want("jobs:total", "a=5")
		for range 62 {
			pass()
		}
		for i, f := range r.origins {
			if n := f.Series(); n != 0 {
				t.Errorf("replica %d: %d series live longer than their client", i, n)
			}
		}
	})
}

// The parts of a series end together, with its last sample, wherever that was.
func TestPartsEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t, 2)
		r.origins[0].push("jobs:100|c|#pod:a,ns:ns")
		for minute := range 80 {
			if minute == 15 {
				r.origins[1].push("jobs:50|c|#pod:a,ns:ns")
			}
			r.exchange()
			want := 1
			switch {
			case minute >= 78:
				want = 0
			case minute >= 15:
				want = 2
			}
			for i := range r.origins {
				if n := r.parts(i, "a"); n != want && (minute < 75 || minute >= 78) {
					t.Fatalf("after %d minutes, replica %d has %d parts, want %d", minute, i, n, want)
				}
			}
			time.Sleep(time.Minute)
			for _, f := range r.origins {
				f.sweep()
			}
		}
	})
}

// The lifetime that a client pushed last holds for the whole series, at whichever replica: what it pushed before at
// another one, without a lifetime or with a longer one, doesn't come back when it ends; with a shorter one, it stays.
func TestThePushedLifetimeHoldsForAllParts(t *testing.T) {
	const none, forever = time.Duration(0), metric.Forever
	for _, c := range []struct {
		first, then time.Duration
		live        int // parts that are left after two days
	}{
		{none, 10 * time.Minute, 0},
		{forever, 10 * time.Minute, 0},
		{time.Hour, 10 * time.Minute, 0},
		{10 * time.Minute, time.Hour, 0},
		{time.Hour, forever, 2},
		{forever, none, 2},
		{forever, forever, 2},
		{10 * time.Minute, none, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t, 2)
			push := func(at int, ttl time.Duration) {
				f := r.origins[at]
				f.w.Online()
				f.w.Apply(&metric.Sample{Name: []byte("depth"), Kind: metric.Gauge, Whole: 3, TTL: ttl})
				f.w.Offline()
			}
			pass := func(d time.Duration) {
				time.Sleep(d)
				for _, f := range r.origins {
					f.sweep()
				}
				r.exchange()
			}
			push(0, c.first)
			r.exchange()
			pass(time.Minute)
			push(1, c.then)
			r.exchange()
			parts := func() [2]int { return [2]int{r.origins[0].Series(), r.origins[1].Series()} }
			if last := c.then; last != none && last != forever {
				for range int((last - 2*time.Minute) / time.Minute) {
					pass(time.Minute)
				}
				if n := parts(); n != [2]int{1, 1} {
					t.Errorf("%v, then %v: %v parts before the end", c.first, c.then, n)
				}
				for range 5 {
					pass(time.Minute)
				}
			} else {
				for range 48 {
					pass(time.Hour)
				}
			}
			if n := parts(); n[0]+n[1] != c.live {
				t.Errorf("%v, then %v: %v parts, want %d", c.first, c.then, n, c.live)
			}
		})
	}
}

// A folder that a replica wrote is read by a table alone, and back.
func TestReplicaState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newReplica(t)
		random := rand.New(rand.NewPCG(3, 3))
		p := pushesOf(random)
		for i := range 100 {
			if i == 20 {
				f.AdoptSetSeed(1)
			}
			f.churn(random, p)
			time.Sleep(time.Second)
		}
		was := f
		for _, next := range []*fixture{newFixture(t), newReplica(t)} {
			disk := newSaved()
			disk.flush(was.Table, each)
			if disk.clock[0] != was.format(false) {
				t.Errorf("format %d, want %d", disk.clock[0], was.format(false))
			}
			must(t, disk.into(next.Table))
			want, got := strings.Split(f.all()+"\n"+f.answers(), "\n"), strings.Split(next.all()+"\n"+next.answers(), "\n")
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("replica %v reads %s, want %s", next.Replicated, got[i], want[i])
				}
			}
			was = next
		}
		eachPlace(was.Table, func(b *block, place uint32) {
			if b.page.kinds[place] != metric.Gauge {
				return
			}
			if part, set := kind.GaugePartLocked(b.handle(place)); set && part.At == 0 {
				t.Errorf("a gauge without a stamp")
			}
		})
	})
}

// Writers at two origins shift gauges, push totals and see members while news, another seed and
// readers come: each shift counts once.
func TestReplicasWhileWritersWrite(t *testing.T) {
	r := newFleetAfter(t, 2, 0)
	for _, f := range r.origins {
		f.push("g:0|g|#pod:a,ns:ns")
	}
	r.exchange()
	var writers, others sync.WaitGroup
	var stop atomic.Bool
	const shifts = 3000
	for _, f := range r.origins {
		for k := range 2 {
			writers.Go(func() {
				w := f.NewWriter()
				defer w.Close()
				for i := range shifts {
					for _, line := range []string{"g:+1|g|#pod:a,ns:ns", fmt.Sprintf("p:%d|g|#pod:a,ns:ns", i), fmt.Sprintf("s:%d|s|#pod:a,ns:ns", i%50)} {
						if rejected := w.Apply(sample(line)); rejected != metric.Applied {
							t.Error(rejected)
						}
					}
					if k == 0 {
						w.Apply(total("c", float64(i)))
					}
					w.Quiesce()
				}
			})
		}
	}
	others.Go(func() {
		for seed := uint64(100); !stop.Load(); seed-- {
			r.exchange()
			r.origins[0].AdoptSetSeed(max(seed, 1))
			time.Sleep(time.Millisecond)
		}
	})
	others.Go(func() {
		m := r.merged(0)
		for !stop.Load() {
			for _, asked := range []string{"g", "p", "s:unique:10s", "c:total"} {
				answer(m, asked)
			}
		}
	})
	writers.Wait()
	stop.Store(true)
	others.Wait()
	r.exchange()
	if got, _ := answer(r.merged(0), "g"); got != metric.Int(4*shifts) {
		t.Errorf("%s, want %d", got.Append(nil), 4*shifts)
	}
	if got, _ := answer(r.merged(0), "s:unique:1m"); got != metric.Int(50) {
		t.Errorf("%s members, want 50", got.Append(nil))
	}
}
