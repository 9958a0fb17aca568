package aggregate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// total returns the merged total of a counter at replica i, and the sum of the origins' totals.
func (r *fleet) total(i int, name string) (merged, sum metric.Number) {
	var parts []kind.TotalPart
	twinsOf(r.tables(i), name, func(t *Table, h kind.Series) {
		parts = append(parts, kind.TotalPartLocked(h, r.origins[i].aheadOf(t)))
		sum = sum.Plus(parts[len(parts)-1].Total)
	})
	return kind.MergeTotals(parts), sum
}

// grown returns what all origins counted of a counter.
func (r *fleet) grown(name string) metric.Number {
	var all kind.Sum
	var tables []*Table
	for _, f := range r.origins {
		tables = append(tables, f.Table)
	}
	twinsOf(tables, name, func(_ *Table, h kind.Series) { all.Add(kind.Held(h)) })
	return metric.Decimal(all.Whole, int64(all.Fraction))
}

func (r *fleet) wantTotal(name string, want, grown metric.Number) {
	r.t.Helper()
	for i := range r.origins {
		if merged, sum := r.total(i, name); merged != want || sum != want {
			r.t.Fatalf("%s at replica %d: %s, sum of the origins' totals %s, want %s", name, i, merged.Append(nil), sum.Append(nil), want.Append(nil))
		}
	}
	if got := r.grown(name); got != grown {
		r.t.Fatalf("%s: %s were counted, want %s", name, got.Append(nil), grown.Append(nil))
	}
}

// A client that moves continues its running total at another origin: no growth is counted twice or
// lost, whatever moves, resets and additions by others there are, if the news came before the move.
func TestRunningTotalsMove(t *testing.T) {
	for seed := range uint64(size(40, 12, 4)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			r := newFleet(t, 1+random.IntN(4))
			client, added, grown := metric.Decimal(random.Int64N(1e12), random.Int64N(1e9)), metric.Int(0), metric.Int(0)
			start, first := int64(1), true
			for range 40 {
				f := r.origins[random.IntN(len(r.origins))]
				by := metric.Decimal(random.Int64N(1000), random.Int64N(1e9))
				switch random.IntN(8) {
				case 0:
					s := total("c", 0)
					s.Op = metric.Add
					setNumber(s, by)
					f.apply(s)
					added, grown = added.Plus(by), grown.Plus(by)
				case 1: // the client starts anew
					if whole, _, _ := client.Decimal(); seed&2 == 0 && whole < 1000 {
						continue // a larger total is no reset
					}
					client, start = by, start+1
					if !first {
						grown = grown.Plus(by)
					}
					f.apply(f.runningTotal(client, seed, start))
					first = false
				default:
					client = client.Plus(by)
					if !first {
						grown = grown.Plus(by)
					}
					f.apply(f.runningTotal(client, seed, start))
					first = false
				}
				time.Sleep(time.Duration(1+random.IntN(5000)) * time.Millisecond)
				r.exchange()
				if random.IntN(8) == 0 {
					r.restart(random.IntN(len(r.origins)))
				}
				if !first {
					r.wantTotal("c", client.Plus(added), grown)
				}
			}
		})
	}
}

func setNumber(s *metric.Sample, n metric.Number) {
	whole, nano, _ := n.Decimal()
	s.Whole, s.Fraction = whole, float64(nano)/1e9
}

// runningTotal is a running total, in one of the forms of the protocols: with and without a
// timestamp and a start time.
func (f *fixture) runningTotal(client metric.Number, form uint64, start int64) *metric.Sample {
	s := total("c", 0)
	setNumber(s, client)
	if form&1 != 0 {
		s.Dated = time.Now().UnixNano()
	}
	if form&2 != 0 {
		s.Started = start
	}
	return s
}

// A histogram that moves between origins counts each observation once.
func TestRunningHistogramsMove(t *testing.T) {
	for seed := range uint64(size(20, 8, 3)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			r := newFleet(t, 2+random.IntN(3))
			bounds, counts := []float64{1, 2, 5}, make([]float64, 4)
			want := [4]float64{}
			for i := range 30 {
				if random.IntN(8) == 0 && slices.Min(counts) >= 10 {
					clear(counts)
				}
				for j := range counts {
					by := float64(random.IntN(9) + 1)
					if counts[j] += by; i > 0 {
						want[j] += by
					}
				}
				h := histogram(bounds, append([]float64(nil), counts...), counts[1]*1.5)
				r.origins[random.IntN(len(r.origins))].apply(pushOf(metric.Accumulate, h))
				time.Sleep(time.Duration(1+random.IntN(1000)) * time.Millisecond)
				r.exchange()
				got := 0.0
				for _, f := range r.origins {
					if f.Series() > 0 {
						got += f.value("t:count")
					}
				}
				if sum := want[0] + want[1] + want[2] + want[3]; got != sum {
					t.Fatalf("seed %d, push %d: %v observations, want %v", seed, i, got, sum)
				}
				if i == 15 {
					r.restart(0)
				}
			}
		})
	}
}

// A total that arrives before the news of its last move is counted from what is known, but the
// merged stat total is right.
func TestTotalBeforeNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t, 2)
		a, b := r.origins[0], r.origins[1]
		a.apply(total("c", 100), total("c", 150))
		time.Sleep(5 * time.Second)
		b.apply(total("c", 170))
		r.exchange()
		for i := range 2 {
			if got, _ := r.total(i, "c"); got != metric.Int(170) {
				t.Errorf("%d: %s", i, got.Append(nil))
			}
		}
		time.Sleep(5 * time.Second)
		a.apply(total("c", 190))
		r.exchange()
		time.Sleep(5 * time.Second)
		b.apply(total("c", 200))
		r.exchange()
		for i := range 2 {
			if got, _ := r.total(i, "c"); got != metric.Int(200) {
				t.Errorf("%d: %s", i, got.Append(nil))
			}
		}
		if got := r.grown("c"); got != metric.Int(50+20+10) {
			t.Errorf("%s grown", got.Append(nil))
		}
	})
}

// Two totals of a client that reached two origins at about the same time, each before the news of
// the other one: the larger is the newer.
func TestTotalsOfOneMoment(t *testing.T) {
	for larger := range 2 {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t, 3)
			r.origins[0].apply(total("c", 100))
			r.exchange()
			r.origins[1-larger].apply(total("c", 150))
			r.origins[larger].apply(total("c", 170))
			for i, f := range r.origins[:2] {
				r.disks[i].flush(f.Table, func(int) bool { return false })
				r.replicate(i, 2)
			}
			if got, _ := r.total(2, "c"); got != metric.Int(170) {
				t.Errorf("a third replica answers %s", got.Append(nil))
			}
			r.exchange()
			r.origins[1-larger].apply(total("c", 190))
			r.exchange()
			for i := range r.origins {
				if got, _ := r.total(i, "c"); got != metric.Int(190) {
					t.Errorf("%d: %s", i, got.Append(nil))
				}
			}
			if got := r.grown("c"); got != metric.Int(50+70+20) {
				t.Errorf("%s grown", got.Append(nil))
			}
		})
	}
}

// TestHistogramsOfOneMoment is TestTotalsOfOneMoment for histograms.
func TestHistogramsOfOneMoment(t *testing.T) {
	for larger := range 2 {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t, 2)
			push := func(origin int, count float64) {
				r.origins[origin].apply(pushOf(metric.Accumulate, histogram([]float64{1}, []float64{count, 0}, count)))
			}
			push(0, 100)
			r.exchange()
			push(1-larger, 150)
			push(larger, 170)
			r.exchange()
			push(1-larger, 190)
			if got := r.origins[0].value("t:count") + r.origins[1].value("t:count"); got != 50+70+20 {
				t.Errorf("%v observations", got)
			}
		})
	}
}

// bodyOf is what the only series of an origin has taken, and what it weighs.
func (f *fixture) bodyOf() (taken, weight int64) {
	b := f.blocks.at[0].Load()
	b.history.Lock()
	defer b.history.Unlock()
	return f.BodyBytes.Load(), b.body(0).Timer.Weight(f.Timers.Of(&b.page.cells[0]))
}

// A total that is adopted again and again, of ever other bounds, takes no more than it weighs.
func TestAdoptedHistogramsAreWeighed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t, 2)
		push := func(origin, i int) {
			bounds, counts := make([]float64, 100+i), make([]float64, 101+i)
			for at := range bounds {
				bounds[at] = float64(at + i%2*1000)
			}
			counts[len(bounds)] = float64(i + 1)
			r.origins[origin].apply(pushOf(metric.Accumulate, histogram(bounds, counts, 1)))
			time.Sleep(2 * time.Second)
			r.exchange()
		}
		push(0, 0)
		for i := range 20 {
			push(1, i+1)
		}
		if taken, weight := r.origins[0].bodyOf(); taken != weight {
			t.Errorf("%d bytes are taken for %d", taken, weight)
		}
	})
}

// A replica without memory hears of the totals of its series all the same, and its shadows keep
// them: nothing is counted twice by a client that comes back.
func TestHistogramsMoveWithoutMemory(t *testing.T) {
	for _, place := range []string{"table", "shadow"} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFleet(t, 2)
				push := func(origin, buckets int, count float64) {
					bounds, counts := make([]float64, buckets), make([]float64, buckets+1)
					for i := range bounds {
						bounds[i] = float64(i)
					}
					counts[buckets] = count
					r.origins[origin].apply(pushOf(metric.Accumulate, histogram(bounds, counts, count)))
				}
				push(0, 500, 100)
				r.exchange()
				push(1, 500, 120)
				r.exchange()
				full := r.origins[0].Table
				if place == "shadow" {
					full = r.shadow(1, 0).Table()
				}
				full.BodyBytes.Add(full.config.MaxBytes)
				push(1, 501, 150)
				r.exchange()
				full.BodyBytes.Add(-full.config.MaxBytes)
				checkHeld(t, full)
				push(0, 500, 170)
				if got := r.origins[0].value("t:count") + r.origins[1].value("t:count"); got != 70 {
					t.Errorf("%v observations, want 70", got)
				}
			})
		})
	}
}
