package aggregate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// Series of several watches stand in one word. Each watch is told of its own samples only, until they are
// recorded, which is counted for the whole word.
func TestWatchesOfOneWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		all := NewMerged(f.Table).NewWatches()
		var some []*oneWatch
		for i := range 8 {
			f.push(fmt.Sprintf("q%d:0|g|#ns:ns", i))
			some = append(some, watchingAmong(all, metric.Query{Namespace: "ns", Expression: metric.Expression{Name: fmt.Sprint("q", i)}}))
		}
		rest(f, all)
		if len(all.words) != 1 {
			t.Fatalf("%d words, want 1", len(all.words))
		}
		for i := range some {
			f.push(fmt.Sprintf("q%d:1|g|#ns:ns", i))
			wantTold(t, some, i)
			rest(f, all)
		}
		wantTold(t, some)
		some[3].End()
		f.push("q3:2|g|#ns:ns")
		wantTold(t, some)
	})
}

// rest lets the roller record all samples.
func rest(f *fixture, all *Watches) {
	time.Sleep(time.Second)
	f.Roll()
	all.Look()
}

// wantTold looks, and compares the watches that are told.
func wantTold(t *testing.T, all []*oneWatch, want ...int) {
	t.Helper()
	for _, one := range all {
		one.changed = false
	}
	all[0].watches.Look()
	var told []int
	for i, one := range all {
		if one.changed {
			told = append(told, i)
		}
	}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// A place whose series has ended is watched no more, though another series takes it.
func TestWatchesForgetPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		m := NewMerged(f.Table)
		f.push("q:1|g|#ns:ns")
		w := watching(m, metric.Query{Namespace: "ns", Expression: metric.Expression{Name: "q"}})
		m.Delete(w.query)
		if !w.Changed() {
			t.Error("the end was not noticed")
		}
		time.Sleep(5 * time.Second) // the place is free again
		f.push("other:1|g|#ns:ns")
		if b, place := f.blocks.of(0); b.page.cells[place].State.Load()&kind.Live == 0 {
			t.Fatal("the other series has another place")
		}
		for w.Changed() {
			time.Sleep(time.Second)
		}
		f.push("other:2|g|#ns:ns")
		if w.Changed() {
			t.Error("a sample of another series in the place was noticed")
		}
	})
}

// Watches that end, and those that are found again, leave nothing behind.
func TestWatchesAreTidied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range 2000 {
			f.push(fmt.Sprintf("q:0|g|#ns:ns,n:%d", i))
		}
		all := NewMerged(f.Table).NewWatches()
		q := metric.Query{Namespace: "ns", Expression: metric.Expression{Name: "q"}}
		kept := watchingAmong(all, q)
		words := len(all.words)
		for i := range 100 {
			watchingAmong(all, q).End()
			f.push(fmt.Sprintf("q:0|g|#ns:ns,more:%d", i))
			kept.Changed()
		}
		all.Look()
		if len(all.words) > words+2 || all.entries > 3*len(all.words) || len(all.families) > 4 || len(all.all) != 1 {
			t.Errorf("%d words, %d entries, %d families, %d watches are left of %d words and one watch",
				len(all.words), all.entries, len(all.families), len(all.all), words)
		}
		kept.End()
		all.Look()
		if len(all.words)+len(all.at)+len(all.about)+len(all.families)+all.entries+all.stale > 0 {
			t.Errorf("left: %d words, %d entries, %d families", len(all.words), all.entries, len(all.families))
		}
	})
}

// A reader that reads only what it is told of has the value that everybody reads, after each look. The same
// seeds run each time.
func TestWatchesTellAll(t *testing.T) {
	for seed := range uint64(size(20, 10, 4)) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t).running()
			m, random := NewMerged(f.Table), rand.New(rand.NewPCG(seed, 1))
			all, readers := m.NewWatches(), []*reader{}
			for step := range 600 {
				switch n := random.IntN(100); {
				case n < 60:
					f.push(fmt.Sprintf("q%d:%d|g|#ns:ns,n:%d", random.IntN(10), random.IntN(5), random.IntN(8)))
				case n < 65:
					m.Delete(metric.Query{Namespace: "ns", Expression: metric.Expression{Name: fmt.Sprint("q", random.IntN(10))}})
				case n < 75 && len(readers) < 30:
					readers = append(readers, newReader(m, all, fmt.Sprint("q", random.IntN(10))))
				case n < 78 && len(readers) > 0:
					i := random.IntN(len(readers))
					readers[i].End()
					readers = append(readers[:i], readers[i+1:]...)
				case n < 85:
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
				}
				if random.IntN(3) == 0 {
					lookAndCompare(t, seed, step, all, readers)
				}
			}
		})
	}
}

// reader reads a metric when it is told that the metric may have changed.
type reader struct {
	*oneWatch
	of    *Merged
	value string
}

func newReader(m *Merged, all *Watches, name string) *reader {
	r := &reader{oneWatch: watchingAmong(all, metric.Query{Namespace: "ns", Expression: metric.ParseExpression(name + ":last")}), of: m}
	r.value = r.read()
	return r
}

func (r *reader) read() string {
	r.Follow()
	points, _ := r.of.External(r.query) // none is an error that says since when
	value := ""
	for _, p := range points {
		value += fmt.Sprintln(p.Labels, p.Value.Float64())
	}
	return value
}

func lookAndCompare(t *testing.T, seed uint64, step int, all *Watches, readers []*reader) {
	t.Helper()
	for _, r := range readers {
		r.changed = false
	}
	all.Look()
	for _, r := range readers {
		if r.changed {
			r.value = r.read()
		} else if now := r.read(); now != r.value {
			t.Fatalf("seed %d, step %d: %s is %s, and was not told after %s", seed, step, r.query.Expression.Name, now, r.value)
		}
	}
}

// A watch of the series that took a place takes it from the watch of the series before, which learns of the end.
func TestWatchesOfSuccessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		m := NewMerged(f.Table)
		all := m.NewWatches()
		watch := func(name string) *oneWatch {
			return watchingAmong(all, metric.Query{Namespace: "ns", Expression: metric.Expression{Name: name}})
		}
		f.push("q:1|g|#ns:ns")
		some := []*oneWatch{watch("q")}
		rest(f, all)
		m.Delete(some[0].query)
		time.Sleep(5 * time.Second) // the place is free again
		f.push("other:1|g|#ns:ns")
		some[0].changed = false
		some = append(some, watch("other"))
		if !some[0].changed {
			t.Error("the end was not noticed")
		}
		rest(f, all)
		f.push("other:2|g|#ns:ns")
		wantTold(t, some, 1)
	})
}
