package aggregate

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/metric"
)

// allPages lists page by page, and checks that the pages are bounded.
func allPages[T any](t *testing.T, list func(Part) ([]T, Place, bool), p Part) (all []T) {
	t.Helper()
	for pages := 0; ; pages++ {
		page, last, more := list(p)
		if len(page) > p.Most || pages > 10_000 {
			t.Fatalf("page %d has %d items", pages, len(page))
		}
		all = append(all, page...)
		if p.After = last; !more {
			return all
		}
	}
}

func (s MetricSummary) String() string {
	return fmt.Sprintf("%s/%s/%s %s %d objects %d series", s.Namespace, s.Name, s.Resource, s.Kind, s.Objects, s.Series)
}

func (s ObjectSummary) String() string {
	return fmt.Sprintf("%s/%s/%s %d metrics %d series", s.Namespace, s.Resource, s.Name, s.Metrics, s.Series)
}

func lines[T fmt.Stringer](all []T) string {
	var b strings.Builder
	for _, one := range all {
		b.WriteString(one.String() + "\n")
	}
	return b.String()
}

func TestMetricsAreListed(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("b:1|c|#ns:shop,pod:web-1,code:200", "b:1|c|#ns:shop,pod:web-1,code:500", "b:1|c|#ns:shop,pod:web-2",
			"a:1|g|#ns:shop,queue:x", "a:1|g|#ns:shop,queue:y", "a:1|s|#ns:bank,pod:p", "z:1|ms")
		m := NewMerged(f.Table)
		want := `/z/ timer 0 objects 1 series
bank/a/pods set 1 objects 1 series
shop/a/ gauge 0 objects 2 series
shop/b/pods counter 2 objects 3 series
`
		for limit := 1; limit < 6; limit++ {
			if got := lines(allPages(t, m.Metrics, Part{Most: limit})); got != want {
				t.Errorf("pages of %d:\n%s, want\n%s", limit, got, want)
			}
		}
		if got := lines(allPages(t, m.Metrics, Part{Namespace: "shop", Name: "b", Most: 9})); got != "shop/b/pods counter 2 objects 3 series\n" {
			t.Errorf("one name: %s", got)
		}
		if got := allPages(t, m.Metrics, Part{Namespace: "nowhere", Most: 9}); len(got) != 0 {
			t.Errorf("nowhere: %v", got)
		}
		wantObjects := "bank/pods/p 1 metrics 1 series\nshop/pods/web-1 1 metrics 2 series\nshop/pods/web-2 1 metrics 1 series\n"
		for limit := 1; limit < 5; limit++ {
			if got := lines(allPages(t, m.ObjectsWithSeries, Part{Most: limit})); got != wantObjects {
				t.Errorf("pages of %d:\n%s, want\n%s", limit, got, wantObjects)
			}
		}
	})
}

// Pages cover all objects, whichever order the families of the index are visited in.
func TestPagesOfObjectsOfManyNamespaces(t *testing.T) {
	start(t, func(f *fixture) {
		for i := range 400 {
			f.push(fmt.Sprintf("m%d:1|c|#ns:ns%02d,pod:p%d", i%7, i%40, i%9))
		}
		m := NewMerged(f.Table)
		want := lines(allPages(t, m.ObjectsWithSeries, Part{Most: 1000}))
		for _, limit := range []int{1, 2, 5, 30, 100} {
			if got := lines(allPages(t, m.ObjectsWithSeries, Part{Most: limit})); got != want {
				t.Errorf("pages of %d:\n%s, want\n%s", limit, got, want)
			}
		}
	})
}

func TestExpiredAndRemovedSeriesAreNotListed(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("a:1|c|#ns:shop,pod:web-1", "a:1|c|#ns:shop,pod:web-2", "b:1|c|#ns:shop,queue:x")
		m := NewMerged(f.Table)
		f.Delete(metric.Query{Resource: "pods", Namespace: "shop", Object: "web-2", Expression: metric.Expression{Name: "a"}})
		if got := lines(allPages(t, m.Metrics, Part{Most: 1})); got != "shop/a/pods counter 1 objects 1 series\nshop/b/ counter 0 objects 1 series\n" {
			t.Errorf("after a deletion:\n%s", got)
		}
		time.Sleep(f.config.ObjectTTL + time.Second)
		if got := lines(allPages(t, m.Metrics, Part{Most: 1})); got != "shop/b/ counter 0 objects 1 series\n" {
			t.Errorf("after the objects' lifetime:\n%s", got)
		}
		if got := allPages(t, m.ObjectsWithSeries, Part{Most: 1}); len(got) != 0 {
			t.Errorf("after the objects' lifetime: %v", got)
		}
	})
}

func TestTheNewestSampleIsListed(t *testing.T) {
	start(t, func(f *fixture) {
		m := NewMerged(f.Table)
		f.push("a:1|c|#ns:shop,pod:web-1")
		time.Sleep(time.Minute)
		f.push("a:1|c|#ns:shop,pod:web-2")
		pushed := time.Now()
		time.Sleep(10 * time.Minute)
		metrics, objects := allPages(t, m.Metrics, Part{Most: 9}), allPages(t, m.ObjectsWithSeries, Part{Most: 9})
		if off := metrics[0].LastSample.Sub(pushed).Abs(); off > 2*time.Second {
			t.Errorf("the metric's newest sample is %s off", off)
		}
		if off := objects[0].LastSample.Sub(pushed.Add(-time.Minute)).Abs(); off > 2*time.Second {
			t.Errorf("the first object's newest sample is %s off", off)
		}
	})
}

// TestListsOfReplicasAreOfAllOrigins: twins count once.
func TestListsOfReplicasAreOfAllOrigins(t *testing.T) {
	replicated(t, 3, func(r *replicas) {
		f := newFixture(r.t).running()
		random := rand.New(rand.NewPCG(1, 1))
		for range 400 {
			line := fmt.Sprintf("m%d:1|c|#ns:ns%d,pod:p%d,l:%d", random.IntN(5), random.IntN(2), random.IntN(9), random.IntN(4))
			r.mu.Lock()
			r.tables[random.IntN(3)].push(line)
			r.mu.Unlock()
			f.push(line)
		}
		time.Sleep(2 * time.Second)
		alone := NewMerged(f.Table)
		for _, limit := range []int{1, 3, 100} {
			if got, want := lines(allPages(t, r.Merged.Metrics, Part{Most: limit})), lines(allPages(t, alone.Metrics, Part{Most: limit})); got != want {
				t.Errorf("pages of %d metrics:\n%s, want\n%s", limit, got, want)
			}
			if got, want := lines(allPages(t, r.Merged.ObjectsWithSeries, Part{Most: limit})), lines(allPages(t, alone.ObjectsWithSeries, Part{Most: limit})); got != want {
				t.Errorf("pages of %d objects:\n%s, want\n%s", limit, got, want)
			}
		}
	})
}

func seriesLines(all []SeriesSummary) string {
	var b strings.Builder
	for _, seriesSummary := range all {
		value := "-"
		if seriesSummary.HasValue {
			value = print(seriesSummary.Value)
		}
		fmt.Fprintf(&b, "%s%s %s %s\n", seriesSummary.Object.Name, seriesSummary.Labels, seriesSummary.Kind, value)
	}
	return b.String()
}

func TestSomeSeriesAreListed(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("a:4|g|#ns:shop,pod:web-2,l:1", "a:5|g|#ns:shop,pod:web-1", "a:6|g|#ns:shop,pod:web-2,l:2", "a:1|s|#ns:shop,pod:web-0",
			"q:7|g|#ns:shop,q:1", "q:8|g|#ns:shop,q:2")
		m := NewMerged(f.Table)
		pods := Place{"pods", "shop", "a"}
		want := "web-0{} set 1\nweb-1{} gauge 5\nweb-2{l=1} gauge 4\nweb-2{l=2} gauge 6\n"
		if got := seriesLines(m.SomeSeries(pods, 10)); got != want {
			t.Errorf("all:\n%s, want\n%s", got, want)
		}
		if got := seriesLines(m.SomeSeries(pods, 3)); got != strings.SplitAfterN(want, "web-2{l=2}", 2)[0][:len(want)-len("web-2{l=2} gauge 6\n")] {
			t.Errorf("three:\n%s", got)
		}
		if got := seriesLines(m.SomeSeries(Place{"", "shop", "q"}, 1)); got != "{q=1} gauge 7\n" {
			t.Errorf("external:\n%s", got)
		}
		if got := m.SomeSeries(Place{"", "shop", "none"}, 1); len(got) != 0 {
			t.Errorf("absent: %v", got)
		}
	})
}

// Has knows a metric of an object, and its single series, at all origins; and a timer without a
// value.
func TestHas(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.mu.Lock()
		r.tables[0].push("q:3|c|#ns:shop,q:1", "a:5|g|#ns:shop,pod:web-1,l:1", "late:5|ms|#ns:shop,pod:web-1")
		r.tables[1].push("q:3|c|#ns:shop,q:2")
		r.mu.Unlock()
		time.Sleep(2 * time.Minute)
		pod, external := metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}, metric.Object{Namespace: "shop"}
		for _, c := range []struct {
			o      metric.Object
			name   string
			labels []metric.Label
			kind   metric.Kind
			series bool
		}{
			{external, "q", []metric.Label{{Key: "q", Value: "1"}}, metric.Counter, true},
			{external, "q", []metric.Label{{Key: "q", Value: "2"}}, metric.Counter, true},
			{external, "q", []metric.Label{{Key: "q", Value: "3"}}, metric.Counter, false},
			{external, "q", nil, metric.Counter, false},
			{pod, "a", []metric.Label{{Key: "l", Value: "1"}}, metric.Gauge, true},
			{pod, "late", nil, metric.Timer, true},
			{pod, "q", nil, metric.NoKind, false},
			{metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "other"}, "a", nil, metric.NoKind, false},
		} {
			if kind, series := r.Has(&c.o, c.name, c.labels); kind != c.kind || series != c.series {
				t.Errorf("%s of %s with %v: %v %v, want %v %v", c.name, c.o, c.labels, kind, series, c.kind, c.series)
			}
		}
	})
}

// The interval of pushes is that of the newest changes, of each kind with a history.
func TestSeriesHaveTheirInterval(t *testing.T) {
	start(t, func(f *fixture) {
		for i := range 8 {
			f.push("c:1|c|#ns:shop,q:1", fmt.Sprintf("g:%d|g|#ns:shop,q:1", i), "t:5|ms|#ns:shop,q:1")
			if i < 2 {
				f.push("rare:1|c|#ns:shop,q:1")
			}
			time.Sleep(5 * time.Second)
		}
		m := NewMerged(f.Table)
		for name, want := range map[string]time.Duration{"c": 5 * time.Second, "g": 5 * time.Second, "t": 5 * time.Second, "rare": 0} {
			list := m.SomeSeries(Place{"", "shop", name}, 1)
			if len(list) != 1 || (list[0].Interval-want).Abs() > f.Clock.Tick/2 {
				t.Errorf("%s: %+v, want every %v", name, list, want)
			}
		}
	})
}

// The past of a series is what was read then: of a gauge its values, of a counter its rates.
func TestSeriesHaveTheirPast(t *testing.T) {
	start(t, func(f *fixture) {
		for i := range 90 {
			f.push("c:2|c|#ns:shop,q:1", fmt.Sprintf("g:%d|g|#ns:shop,q:1", i), "t:5|ms|#ns:shop,q:1")
			time.Sleep(time.Second)
		}
		m := NewMerged(f.Table)
		past := func(name string) []float64 { return m.PastSeries(Place{"", "shop", name}, 1)[0].Past }
		for i, v := range past("g") {
			if want := float64(90 - PastSeconds + i); v < want-1 || v > want+1 {
				t.Fatalf("second %d of the gauge is %v, want about %v", i, v, want)
			}
		}
		rates := past("c")
		for i, v := range rates {
			if known := i >= 10; known && math.Abs(v-2) > .21 || i < 9 && !math.IsNaN(v) {
				t.Fatalf("the rates are %v; must be none in the first ten seconds, then 2", rates)
			}
		}
		if past("t") != nil {
			t.Error("a timer has a past")
		}
	})
}

func TestTwinsAreListedAsOneSeries(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.mu.Lock()
		for i := range 20 {
			line := fmt.Sprintf("q:3|c|#ns:shop,q:%d", i)
			r.tables[0].push(line)
			r.tables[1].push(line, line)
		}
		r.mu.Unlock()
		time.Sleep(2 * time.Second)
		for _, limit := range []int{5, 20, 100} {
			got := r.SomeSeries(Place{"", "shop", "q"}, limit)
			if len(got) != min(limit, 20) {
				t.Fatalf("%d series, want %d", len(got), min(limit, 20))
			}
			for _, seriesSummary := range got {
				if v := seriesSummary.Value.Float64(); v < 0.1 || seriesSummary.Labels.Len() != 1 {
					t.Errorf("%s: %v, want the rate of 9", seriesSummary.Labels, v)
				}
			}
		}
	})
}

// TestListsWhileSeriesComeAndGo: a series that lives all the time is on a page, whatever else
// happens.
func TestListsWhileSeriesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		for i := range 200 {
			f.push(fmt.Sprintf("stays%03d:1|c|#ns:shop,pod:p%d", i, i))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w := f.NewWriter()
			for i := range 2000 {
				w.Online()
				w.Apply(sample(fmt.Sprintf("comes%d:1|c|#ns:shop,pod:q%d", i, i%50)))
				w.Offline()
				if i%3 == 0 {
					f.Delete(metric.Query{Resource: "pods", Namespace: "shop", Object: "*",
						Expression: metric.Expression{Name: fmt.Sprintf("comes%d", i)}})
				}
			}
			w.Close()
		}()
		m := NewMerged(f.Table)
		for range 5 {
			stays := 0
			for _, allMetric := range allPages(t, m.Metrics, Part{Namespace: "shop", Most: 37}) {
				if strings.HasPrefix(allMetric.Name, "stays") {
					stays++
				}
			}
			if stays != 200 {
				t.Errorf("%d of the 200 metrics that stay are listed", stays)
			}
			allPages(t, m.ObjectsWithSeries, Part{Most: 50})
		}
		<-done
	})
}

// Of each name the first metric is found, of one namespace or of any, in one look at the index; none of which nothing lives.
func TestPushedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		f.push("a:1|c|#pod:p0,ns:shop", "a:1|c|#ns:shop,external:1", "b:1|c|#ns:bank,external:1", "b:1|c|#pod:p0,ns:shop",
			"c:1|c|#pod:p0,ns:shop", "d:1|c|#pod:p0,ns:shop")
		m := NewMerged(f.Table)
		asked := map[Place]bool{{Namespace: "shop", Name: "a"}: true, {Name: "b"}: true, {Namespace: "bank", Name: "c"}: true,
			{Name: "d"}: true, {Name: "missing"}: true}
		want := map[Place]Place{{Namespace: "shop", Name: "a"}: {Namespace: "shop", Name: "a"},
			{Name: "b"}: {Namespace: "bank", Name: "b"}, {Name: "d"}: {Resource: "pods", Namespace: "shop", Name: "d"}}
		if got := m.Pushed(asked); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		delete(want, Place{Name: "d"})
		time.Sleep(f.config.ObjectTTL - time.Second)
		for !maps.Equal(m.Pushed(asked), want) {
			if swept := !m.hasFamily("d"); swept {
				t.Fatalf("what is over is found until it is swept; at last %v, want %v", m.Pushed(asked), want)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !m.hasFamily("d") {
			t.Error("what is over is found until it is swept")
		}
	})
}

func (m *Merged) hasFamily(name string) (has bool) {
	for _, s := range m.sources() {
		s.table.index.EachFamily(func(f *index.Family) { has = has || f.Key.Name == name })
	}
	return has
}
