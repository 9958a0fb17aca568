package aggregate

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// AdoptSetSeed adopts any seed but the own one, as if it were that of other replicas.
func (t *Table) AdoptSetSeed(seed uint64) {
	t.seedMu.Lock()
	defer t.seedMu.Unlock()
	if seed != t.SetSeed.Load() {
		t.adoptSeedLocked(seed)
	}
}

// sees pushes some members of a set.
func (f *fixture) sees(from, to int) {
	f.t.Helper()
	for i := from; i < to; i++ {
		f.push(fmt.Sprintf("s:m%d|s|#pod:a,ns:ns", i))
	}
}

// A table that adopts another seed counts as before: neither less nor twice, in each window, for
// members that stay and members that come and go, exact and estimated, across a restart.
func TestAdoptSetSeed(t *testing.T) {
	for name, c := range map[string]struct {
		population int
		turnover   int // members that are replaced each second
		off        float64
		most       int // population that is tested
	}{"small": {40, 0, 0, 40}, "changing": {40, 7, 0, 40}, "large": {4000, 0, 0.08, size(4000, 0, 0)}, "large, changing": {4000, 100, 0.08, size(4000, 4000, 0)}} {
		t.Run(name, func(t *testing.T) {
			if c.population > c.most {
				t.Skip("SLUICE_LONG=1 runs it")
			}
			synctest.Test(t, func(t *testing.T) {
				r := newFleet(t, 1)
				f, other := r.origins[0], newFixture(t)
				other.w.Offline()
				defer other.w.Close()
				f.SetSeed.Store(1)
				other.SetSeed.Store(2)
				first := 0
				second := func() {
					f.sees(first, first+c.population)
					other.sees(first, first+c.population)
					first += c.turnover
					time.Sleep(time.Second)
					f.Roll()
					other.Roll()
					for _, asked := range []string{"s:unique:10s", "s:unique:1m"} {
						got, want := f.value(asked), other.value(asked)
						if math.Abs(got-want) > c.off*want {
							t.Fatalf("after %d: %s is %v, want %v", first, asked, got, want)
						}
					}
				}
				for range 70 {
					second()
				}
				f.AdoptSetSeed(5)
				f.AdoptSetSeed(4)
				for i := range 130 {
					if i == 8 || i == 20 {
						f.AdoptSetSeed(uint64(100 + i))
					}
					second()
					if i%30 == 5 {
						r.disks[0].flush(f.Table, never)
						r.restart(0)
						f = r.origins[0]
					}
				}
				if bytes := f.BodyBytes.Load(); bytes > 200<<10 {
					t.Errorf("%d bytes are left of the former members", bytes)
				}
			})
		})
	}
}

// Sets of the same members at origins with different seeds are not counted twice; with one seed
// they unite exactly.
func TestSetsOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t, 2)
		a, b := r.origins[0], r.origins[1]
		unique := func() float64 {
			m := NewMerged(a.Table)
			m.SetShadows([]*Shadow{r.shadow(1, 0)})
			v, err := answer(m, "s:unique:10s")
			must(t, err)
			return v.Float64()
		}
		a.sees(0, 40)
		b.sees(0, 30)
		time.Sleep(time.Second)
		r.exchange()
		if got := unique(); got != 40 {
			t.Errorf("two seeds: %v, want the larger one, 40", got)
		}
		if a.SetSeed.Load() != b.SetSeed.Load() {
			t.Error("the younger table has not adopted the seed of the older one")
		}
		time.Sleep(20 * time.Second)
		a.sees(0, 40)
		b.sees(20, 90)
		time.Sleep(time.Second)
		r.exchange()
		if got := unique(); got != 90 {
			t.Errorf("one seed: %v, want 90", got)
		}
	})
}
