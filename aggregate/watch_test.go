package aggregate

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// oneWatch is a Watch that is asked.
type oneWatch struct {
	*Watch
	changed bool
}

func watching(m *Merged, q metric.Query) *oneWatch { return watchingAmong(m.NewWatches(), q) }

func watchingAmong(all *Watches, q metric.Query) *oneWatch {
	w := &oneWatch{}
	w.Watch = all.Watch(q, func() { w.changed = true })
	return w
}

// Changed looks, and finds what began, as a reader does.
func (w *oneWatch) Changed() bool {
	w.changed = false
	w.watches.Look()
	if w.changed {
		w.Follow()
	}
	return w.changed
}

// Each kind of sample is noticed, and nothing else is once the roller has recorded it.
func TestWatchNoticesSamples(t *testing.T) {
	for _, sample := range []string{"1|c", "0.5|c", "5|g", "+1|g", "12|ms", "alice|s"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			w := watching(NewMerged(f.Table), metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.Expression{Name: "q"}})
			if w.Changed() {
				t.Fatal("changed before the first sample")
			}
			for i := range 4 {
				f.push("q:" + sample + "|#pod:a,ns:ns")
				if !w.Changed() {
					t.Errorf("%s: sample %d was not noticed", sample, i)
				}
				untouched(t, f.Table, w, sample)
			}
			f.push("other:1|c|#pod:a,ns:ns")
			f.push("q:1|c|#pod:b,ns:ns")
			if w.Changed(); w.Changed() {
				t.Errorf("%s: a sample of another series was noticed twice", sample)
			}
		})
	}
}

// untouched rolls until a sample is recorded.
func untouched(t *testing.T, table *Table, w *oneWatch, line string) {
	t.Helper()
	for range 4 {
		time.Sleep(time.Second)
		table.Roll()
		w.Changed()
	}
	if w.Changed() {
		t.Errorf("%s: noticed without a sample", line)
	}
}

// A sample that the roller records before the next look is noticed, too, in the tick of another sample
// or not.
func TestWatchNoticesRecordedSamples(t *testing.T) {
	for _, sample := range []string{"1|c", "0.5|c", "+1|g", "12|ms", "%d|ms", "name%d|s"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			push := func(i int) { f.push("q:" + strings.ReplaceAll(sample, "%d", strconv.Itoa(i)) + "|#pod:a,ns:ns") }
			push(0)
			w := watching(NewMerged(f.Table), metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.Expression{Name: "q"}})
			untouched(t, f.Table, w, sample)
			for i := range 8 {
				push(i + 1)
				f.Roll()
				if !w.Changed() {
					t.Errorf("%s: sample %d was not noticed", sample, i)
				}
				w.Changed()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// An external metric without a resource may be of the query's namespace, or of none.
func TestWatchNoticesExternals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		w := watching(NewMerged(f.Table), metric.Query{Namespace: "ns", Object: "ignored", Expression: metric.Expression{Name: "q"}})
		for _, line := range []string{"q:1|g", "q:1|g|#ns:ns", "q:2|g", "q:2|g|#ns:ns", "q:1|g|#ns:ns,queue:mail"} {
			f.push(line)
			if !w.Changed() {
				t.Errorf("%s was not noticed", line)
			}
			untouched(t, f.Table, w, line)
		}
		f.push("q:1|g|#ns:other")
		if w.Changed(); w.Changed() {
			t.Error("a series of another namespace was noticed twice")
		}
	})
}

// A series that ends and begins again is noticed: each change is one that a reader sees.
func TestWatchNoticesAnEndAndABeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		m := NewMerged(f.Table)
		q := metric.Query{Namespace: "ns", Expression: metric.Expression{Name: "q"}}
		f.push("q:1|g|#ns:ns")
		w := watching(m, q)
		for range 3 {
			time.Sleep(5 * time.Second)
			for w.Changed() {
			}
			if gone := m.Delete(q); gone != 1 {
				t.Fatalf("%d series were deleted", gone)
			}
			if !w.Changed() {
				t.Error("the end was not noticed")
			}
			time.Sleep(5 * time.Second)
			for w.Changed() {
			}
			f.push("q:1|g|#ns:ns")
			if !w.Changed() {
				t.Error("the new beginning was not noticed")
			}
		}
	})
}

// Another origin's samples are noticed with each of its flushes.
func TestWatchNoticesOtherOrigins(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		w := watching(r.Merged, metric.Query{Namespace: "ns", Expression: metric.Expression{Name: "q"}})
		w.Changed()
		r.tables[1].push("q:1|g|#ns:ns")
		for began := time.Now(); !w.Changed(); time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > time.Second {
				t.Fatal("the sample of the other origin was not noticed")
			}
		}
	})
}

// A watch of more series than it may look at notices those within its bound, and every new one.
func TestWatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range mostWatched + 100 {
			f.push(fmt.Sprintf("q:1|g|#ns:ns,n:%d", i))
		}
		w := watching(NewMerged(f.Table), metric.Query{Namespace: "ns", Expression: metric.Expression{Name: "q"}})
		if w.series != mostWatched {
			t.Errorf("%d series are watched, want %d", w.series, mostWatched)
		}
		w.Changed()
		f.push("q:1|g|#ns:ns,n:new")
		if !w.Changed() {
			t.Error("a new series was not noticed")
		}
	})
}

// Watches of one namespace leave room to those of another one. Without room some series are not watched, until other watches
// have ended.
func TestWatchesOfANamespaceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range mostWatched {
			f.push(fmt.Sprintf("q:1|g|#ns:bank,n:%d", i))
		}
		f.push("q:1|g|#ns:shop")
		all := NewMerged(f.Table).NewWatches()
		query := metric.Query{Namespace: "bank", Expression: metric.Expression{Name: "q"}}
		var many []*oneWatch
		for range mostEntries / (mostWatched / 64) {
			many = append(many, watchingAmong(all, query))
		}
		if got := all.current.Held(); got > mostEntries*3/4 || got < mostEntries/2 {
			t.Errorf("the watches of one namespace have %d entries, of %d", got, mostEntries)
		}
		query.Namespace = "shop"
		other, last := watchingAmong(all, query), many[len(many)-1]
		all.Look()
		f.push("q:2|g|#ns:shop")
		if !other.Changed() {
			t.Error("a sample of another namespace was not noticed")
		}
		if last.Follow(); last.series > 0 {
			t.Errorf("the last watch has %d series", last.series)
		}
		for _, w := range many[:len(many)/2] {
			w.End()
		}
		if last.Follow(); last.series != mostWatched {
			t.Errorf("with room, the last watch has %d series", last.series)
		}
	})
}

// A reader that reads only what is noticed ends with the last value, however writers, the roller and
// looks meet.
func TestWatchMissesNoLastValue(t *testing.T) {
	f := newFixture(t)
	m := NewMerged(f.Table)
	q := metric.Query{Namespace: "ns", Expression: metric.ParseExpression("q:total")}
	w := watching(m, q)
	stop, rolled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(rolled)
		for {
			select {
			case <-stop:
				return
			default:
				f.Roll()
			}
		}
	}()
	const pushes = 500
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		for range pushes {
			f.push("q:1|c|#ns:ns")
			time.Sleep(100 * time.Microsecond)
		}
	}()
	last := 0.0
	read := func() {
		if w.Changed() {
			if points, err := m.External(q); err == nil {
				last = points[0].Value.Float64()
			}
		}
	}
	for done := false; !done; read() {
		select {
		case <-pushed:
			done = true
		case <-time.After(time.Millisecond): // the roller records samples between two looks
		}
	}
	close(stop)
	<-rolled
	read()
	if last != pushes {
		t.Errorf("the last value read is %v, want %d", last, pushes)
	}
}

// A running total is recorded as it arrives, so its dirty bit is never seen.
func TestWatchNoticesRunningTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.apply(total("q", 10))
		w := watching(NewMerged(f.Table), metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.Expression{Name: "q"}})
		untouched(t, f.Table, w, "a running total")
		for i := range 4 {
			f.apply(total("q", float64(11+i)))
			if !w.Changed() {
				t.Errorf("running total %d was not noticed", i)
			}
			w.Changed()
		}
	})
}

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
	for _, o := range all {
		o.changed = false
	}
	all[0].watches.Look()
	var told []int
	for i, o := range all {
		if o.changed {
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
		if len(all.words)+len(all.at)+len(all.about)+len(all.families)+all.entries+all.current.Len() > 0 {
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
