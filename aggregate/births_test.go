package aggregate

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

var web1 = metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}

// births are the births of hits on web-1: labels and age in seconds, the oldest first.
func (f *fixture) births() (all []string) {
	births := f.AppendBirths(nil, web1, "hits")
	slices.SortFunc(births, func(a, b metric.Birth) int { return int(a.At - b.At) })
	for _, birth := range births {
		all = append(all, fmt.Sprint(birth.Labels.Packed(), " ", time.Since(time.Unix(0, birth.At)).Round(time.Second)))
	}
	return all
}

// A restarted process dates births of before the restart as the others do: by its newest clock. An
// outage makes them younger by its length.
func TestBirthsHaveDates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		time.Sleep(time.Minute)
		f.push("hits:1|c|#ns:shop,pod:web-1,v:1")
		time.Sleep(20 * time.Second)
		f.push("hits:1|c|#ns:shop,pod:web-1,v:2", "hits:1|c|#ns:shop,pod:web-2,v:3")
		time.Sleep(10 * time.Second)
		want := []string{"\x01v\x011 30s", "\x01v\x012 10s"}
		if got := f.births(); !slices.Equal(got, want) {
			t.Errorf("births: %q, want %q", got, want)
		}
		s := newSaved()
		s.flush(f.Table, each)
		time.Sleep(time.Hour)
		back := s.restore(t)
		if got := back.births(); !slices.Equal(got, want) {
			t.Errorf("after a restart: %q, want %q", got, want)
		}
		if n := back.ShedSeries(web1, "hits", []metric.Labels{metric.NewLabels([]metric.Label{{Key: "v", Value: "2"}})}); n != 1 {
			t.Errorf("%d series were evicted, want 1", n)
		}
		if got := back.births(); !slices.Equal(got, want[:1]) {
			t.Errorf("births: %q, want %q", got, want[:1])
		}
	})
}

// A birth that a dated sample moves back is saved again.
func TestBackdatedBirthIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		time.Sleep(time.Minute)
		f.push("hits:1|c|#ns:shop,pod:web-1")
		s := newSaved()
		s.flush(f.Table, each)
		time.Sleep(10 * time.Second)
		f.push(fmt.Sprintf("hits:1|c|#ns:shop,pod:web-1|T%d", time.Now().Add(-30*time.Second).Unix()))
		s.flush(f.Table, never)
		s.uptime = window.Uptime{}
		if got, want := s.restore(t).births(), []string{" 30s"}; !slices.Equal(got, want) {
			t.Errorf("births: %q, want %q", got, want)
		}
	})
}

// MaxSeries and MaxBytes include the shadows.
func TestShadowsCountForTheBounds(t *testing.T) {
	f := newFixture(t)
	series, bytes := 0, int64(0)
	f.CountAlso(func() (int, int64) { return series, bytes })
	f.push("a:1|c")
	series = f.config.MaxSeries - 1
	f.refuses("b:1|c", metric.OverLimit)
	series, bytes = 0, f.config.MaxBytes
	f.refuses("c:1|c", metric.OverLimit)
	bytes = 0
	f.push("d:1|c")
}

// A shadow dates births as their origin does, whatever the difference of the machines' clocks.
func TestAShadowDatesBirthsAsItsOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := NewShadow(f.config, slog.New(slog.DiscardHandler))
		must(t, s.Begin(f.AppendClock(nil)))
		publish := func() {
			must(t, s.ApplyDelta(0, f.AppendDelta(nil, 0)))
			must(t, s.Advance(f.AppendClock(nil), time.Hour))
		}
		check := func(when string) {
			t.Helper()
			ours, theirs := f.AppendBirths(nil, web1, "hits"), s.AppendBirths(nil, web1, "hits")
			if len(ours) == 0 || !slices.Equal(ours, theirs) {
				t.Errorf("%s: the origin has %v, the shadow %v", when, ours, theirs)
			}
		}
		time.Sleep(1234 * time.Millisecond)
		f.push("hits:1|c|#ns:shop,pod:web-1")
		publish()
		check("at the birth")
		time.Sleep(10 * time.Second)
		f.push(fmt.Sprintf("hits:1|c|#ns:shop,pod:web-1|T%d", time.Now().Add(-30*time.Second).Unix()))
		publish()
		check("after a dated sample")
		if ours, theirs := f.Idle(web1, "hits"), s.Idle(web1, "hits"); ours != theirs {
			t.Errorf("idle for %s, the shadow says %s", ours, theirs)
		}
	})
}

func allOf(name string) metric.Query {
	return metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.Expression{Name: name}}
}

// TestDeleteBorn: a deletion that is heard of late deletes what was born before it, to the
// millisecond, and not what was pushed again.
func TestDeleteBorn(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("old:1|c|#pod:a,ns:ns")
		f.push("again:1|c|#pod:a,ns:ns")
		time.Sleep(20 * time.Millisecond)
		at := time.Now()
		f.Delete(allOf("again"))
		time.Sleep(20 * time.Millisecond)
		f.push("again:5|c|#pod:a,ns:ns")
		f.push("old:1|c|#pod:a,ns:ns")
		time.Sleep(10 * time.Second)
		if n := f.DeleteBorn(allOf("again"), at); n != 0 {
			t.Errorf("deleted %d series that are younger", n)
		}
		if n := f.DeleteBorn(allOf("old"), at); n != 1 {
			t.Errorf("deleted %d series, want the older one", n)
		}
		f.want("again:total", "a=5")
	})
}

// TestDeleteBornBeforeARestart: the time while no process ran counts for the date of a deletion.
func TestDeleteBornBeforeARestart(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("old:1|c|#pod:a,ns:ns")
		time.Sleep(5 * time.Second)
		between := time.Now()
		time.Sleep(5 * time.Second)
		f.push("young:1|c|#pod:a,ns:ns")
		time.Sleep(2 * time.Second)
		s := newSaved()
		s.flush(f.Table, func(int) bool { return true })
		time.Sleep(20 * time.Second)
		away := time.Now()
		time.Sleep(20 * time.Second)
		again := s.restore(t)
		time.Sleep(5 * time.Second)
		if young, old := again.DeleteBorn(allOf("young"), between), again.DeleteBorn(allOf("old"), between); young != 0 || old != 1 {
			t.Errorf("deleted %d younger and %d older series, want 0 and 1", young, old)
		}
		if n := again.DeleteBorn(allOf("young"), away); n != 1 {
			t.Errorf("deleted %d series, want one that was born before the process was away", n)
		}
	})
}

// TestMergedDeleteBorn: series of another origin are hidden if they were born before the deletion.
func TestMergedDeleteBorn(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[0].push("m:1|c|#pod:a,ns:ns")
		r.tables[1].push("m:2|c|#pod:b,ns:ns")
		time.Sleep(3 * time.Second)
		at := time.Now()
		time.Sleep(3 * time.Second)
		r.tables[1].push("m:3|c|#pod:c,ns:ns")
		time.Sleep(time.Second)
		if n := r.DeleteBorn(allOf("m"), at); n != 2 {
			t.Errorf("deleted %d series, want 2", n)
		}
		points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("m:total")})
		if err != nil || len(points) != 1 || points[0].Object.Name != "c" {
			t.Errorf("%v %v, want c alone", points, err)
		}
	})
}

// TestMergedDeleteBornInADowntime: of an origin that was away at the moment, what it received before is hidden,
// and what it received since is not, although both may be in one tick.
func TestMergedDeleteBornInADowntime(t *testing.T) {
	for phase := range 10 {
		replicated(t, 2, func(r *replicas) {
			r.tables[1].push("m:1|c|#pod:old,ns:ns")
			time.Sleep(3*time.Second + time.Duration(phase)*100*time.Millisecond)
			r.peers[0].kill()
			time.Sleep(5 * time.Second)
			at := time.Now()
			time.Sleep(200 * time.Millisecond)
			r.restart()
			r.tables[1].push("m:2|c|#pod:young,ns:ns")
			time.Sleep(time.Second)
			if n := r.DeleteBorn(allOf("m"), at); n != 1 {
				t.Errorf("phase %d: deleted %d series, want 1", phase, n)
			}
			r.want("m:total", "young=2")
		})
	}
}

// TestHiddenUntilItsOriginKnows: a deleted series of an origin that cannot be reached stays hidden.
// If the origin is heard and still has the series, it was pushed again there.
func TestHiddenUntilItsOriginKnows(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[1].push("m:2|c|#pod:b,ns:ns")
		time.Sleep(time.Second)
		r.peers[0].silence(true)
		if n := r.Delete(allOf("m")); n != 1 {
			t.Fatalf("deleted %d series, want 1", n)
		}
		for range 10 {
			time.Sleep(10 * time.Second)
			if got := r.ask("m:total"); !strings.HasPrefix(got, "no series") {
				t.Fatalf("%s, want none", got)
			}
		}
		r.peers[0].silence(false)
		time.Sleep(5 * time.Second)
		r.want("m:total", "b=2")
	})
}

// TestHidingIsNotCopied: a deletion takes no more memory while many series are hidden, and those
// that their origin has removed are forgotten.
func TestHidingIsNotCopied(t *testing.T) {
	const n = 2000
	replicated(t, 2, func(r *replicas) {
		p := (*r.Merged.peers.Load())[0]
		hidden := func(name string) []lookup.Ref {
			for i := range n {
				r.tables[1].push(fmt.Sprintf("%s:1|c|#pod:b,ns:ns,l:%d", name, i))
			}
			time.Sleep(time.Second)
			q := allOf(name)
			return p.shadow.Table().selected(&q)
		}
		first := hidden("m")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range first {
			p.hide(p.shadow.Table(), first[i:i+1], hiddenFor)
		}
		runtime.ReadMemStats(&after)
		if len(first) != n || after.TotalAlloc-before.TotalAlloc > 4<<20 {
			t.Errorf("hiding %d series one by one took %d bytes", len(first), after.TotalAlloc-before.TotalAlloc)
		}
		if got := r.ask("m:total"); !strings.HasPrefix(got, "no series") {
			t.Errorf("%s, want none", got)
		}
		r.tables[1].Delete(allOf("m"))
		time.Sleep(time.Second)
		p.hide(p.shadow.Table(), hidden("o"), hiddenFor)
		if of := p.hidden.Load(); len(of.until) != n {
			t.Errorf("%d series are remembered, want the %d that are there", len(of.until), n)
		}
	})
}

// TestStaleElsewhere: a staleness marker for a series that another origin has is told to it, unless
// the series has a newer value.
func TestStaleElsewhere(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		own := r.tables[0]
		var told []string
		own.OnStaleElsewhere(func(o metric.Object, name string, labels metric.Labels) {
			told = append(told, fmt.Sprintf("%s %s %v", o.Name, name, labels.Map()))
		})
		r.tables[1].push("m:2|g|#pod:b,ns:ns,l:x", fmt.Sprintf("n:2|g|#pod:b,ns:ns|T%d", time.Now().Unix()))
		time.Sleep(time.Second)
		own.push("own:1|g|#pod:b,ns:ns")
		own.apply(&metric.Sample{Name: []byte("m"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns,l:x")})
		own.apply(&metric.Sample{Name: []byte("m"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns,l:y")})
		own.apply(&metric.Sample{Name: []byte("own"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns")})
		own.apply(at(&metric.Sample{Name: []byte("n"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns")}, time.Minute))
		if got, want := fmt.Sprint(told), "[b m map[l:x]]"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}

// TestDeleteNamespace: all series of a namespace that were born before a moment end: external ones and those of
// objects with and without UIDs, of the namespace itself, and of other origins; nothing of other namespaces.
func TestDeleteNamespace(t *testing.T) {
	gauge := func(name string, o metric.Object) *metric.Sample {
		s := &metric.Sample{Name: []byte(name), Kind: metric.Gauge, Object: &o}
		s.SetFloat(1)
		return s
	}
	replicated(t, 2, func(r *replicas) {
		for i, f := range r.tables {
			name := fmt.Sprint("m", i)
			for _, namespace := range []string{"shop", "other"} {
				f.apply(gauge(name, metric.Object{Namespace: namespace}),
					gauge(name, metric.Object{Resource: "configmaps", Namespace: namespace, Name: "one"}),
					gauge(name, metric.Object{Resource: "pods", Namespace: namespace, Name: "one", UID: "1"}),
					gauge(name, metric.Object{Resource: "namespaces", Name: namespace, UID: "1"}))
			}
			f.apply(gauge(name, metric.Object{}))
		}
		time.Sleep(2 * time.Second)
		at := time.Now()
		time.Sleep(2 * time.Second)
		r.tables[0].apply(gauge("later", metric.Object{Namespace: "shop"}))
		r.tables[1].apply(gauge("later", metric.Object{Namespace: "shop"}))
		if n := r.DeleteNamespace("shop", at); n != 8 {
			t.Errorf("deleted %d series, want 8", n)
		}
		for _, name := range []string{"m0", "m1"} {
			_, err := r.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression(name)})
			if err == nil || !strings.HasSuffix(err.Error(), "none was ever received") {
				t.Errorf("a later namespace's readers hear: %v", err)
			}
		}
		series := func() (n int) {
			list, _, _ := r.Metrics(Part{Most: 100})
			for _, metricSummary := range list {
				n += metricSummary.Series
			}
			return n
		}
		for range 3 { // the other origin never hears of it
			if n := series(); n != 11 {
				t.Errorf("%d series are left, want 11", n)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Nor does the removal at another origin, which follows, tell a later namespace's readers of the former's metrics.
func TestEndedNamespacesAreNotRemembered(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		there := r.tables[1]
		for _, namespace := range []string{"shop", "other"} {
			there.apply(&metric.Sample{Name: []byte("secret"), Kind: metric.Gauge, Object: &metric.Object{Namespace: namespace}})
		}
		time.Sleep(2 * time.Second)
		r.DeleteNamespace("shop", time.Now())
		there.DeleteNamespace("shop", time.Now())
		there.Delete(metric.Query{Namespace: "other", Expression: metric.ParseExpression("secret")})
		for range 3 {
			time.Sleep(2 * time.Second)
			for namespace, want := range map[string]string{"shop": "none was ever received", "other": "removed at the replica that received it"} {
				_, err := r.External(metric.Query{Namespace: namespace, Expression: metric.ParseExpression("secret")})
				if err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("readers of %s hear: %v, want %s", namespace, err, want)
				}
			}
		}
	})
}

// TestHiddenSeriesAreNotCounted: what an ended namespace had at an origin that is away takes no slot of a limit.
func TestHiddenSeriesAreNotCounted(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		away, counted := r.tables[1], &ledger{series: map[string]int{}}
		r.peers[0].SetAdmission(counted)
		for _, namespace := range []string{"shop", "other"} {
			s := &metric.Sample{Name: []byte("jobs." + namespace), Kind: metric.Gauge, Object: &metric.Object{Namespace: namespace}}
			away.apply(s)
		}
		time.Sleep(2 * time.Second)
		r.mu.Lock()
		r.peers[0].dead = true
		r.mu.Unlock()
		if len(counted.series) != 2 {
			t.Fatalf("counted %v, want both", counted.series)
		}
		r.DeleteNamespace("shop", time.Now())
		if fmt.Sprint(counted.series) != "map[jobs.other:1]" {
			t.Errorf("counted %v, want that of the other namespace", counted.series)
		}
	})
}

// TestHiddenSeriesHideNoClusterWideOne: what an ended namespace had at an origin that is away does not stand before the
// cluster-wide metric of the same name, which the next namespace reads.
func TestHiddenSeriesHideNoClusterWideOne(t *testing.T) {
	depth := func(v float64, of metric.Object) *metric.Sample {
		s := &metric.Sample{Name: []byte("depth"), Kind: metric.Gauge, Object: &of}
		s.SetFloat(v)
		return s
	}
	replicated(t, 2, func(r *replicas) {
		r.tables[0].apply(depth(12, metric.Object{}))
		r.tables[1].apply(depth(1000, metric.Object{Namespace: "shop"}))
		time.Sleep(2 * time.Second)
		r.mu.Lock()
		r.peers[0].dead = true
		r.mu.Unlock()
		for _, want := range []float64{1000, 12} {
			points, err := r.External(metric.Query{Namespace: "shop", Expression: metric.Expression{Name: "depth"}})
			if err != nil || len(points) != 1 || points[0].Value.Float64() != want {
				t.Errorf("shop reads %v, %v; want %v", points, err, want)
			}
			r.DeleteNamespace("shop", time.Now())
		}
	})
}

// TestDeletedTwinsAreNobodys: what an ended namespace had at an origin that is away is not where the next
// namespace's clients go on: their gauges begin at zero, and their first running total counts nothing.
func TestDeletedTwinsAreNobodys(t *testing.T) {
	shop := metric.Object{Namespace: "shop"}
	gauge := func(op metric.Op, v float64) *metric.Sample {
		s := &metric.Sample{Name: []byte("depth"), Kind: metric.Gauge, Op: op, Object: &shop}
		s.SetFloat(v)
		return s
	}
	total := func(v float64) *metric.Sample {
		s := &metric.Sample{Name: []byte("jobs"), Kind: metric.Counter, Op: metric.Accumulate, Object: &shop}
		s.SetFloat(v)
		return s
	}
	replicated(t, 2, func(r *replicas) {
		away := r.tables[1]
		away.apply(gauge(metric.Assign, 1000), total(1000))
		time.Sleep(2 * time.Second)
		away.apply(total(1100))
		time.Sleep(2 * time.Second)
		r.mu.Lock()
		r.peers[0].dead = true
		r.mu.Unlock()
		if n := r.DeleteNamespace("shop", time.Now()); n != 2 {
			t.Errorf("deleted %d series, want 2", n)
		}
		time.Sleep(2 * time.Second)
		r.tables[0].apply(gauge(metric.Shift, 5), total(5000))
		time.Sleep(2 * time.Second)
		r.tables[0].apply(total(5007))
		for name, want := range map[string]float64{"depth": 5, "jobs": 7} {
			stat := metric.NoStat
			if name == "jobs" {
				stat = metric.Count
			}
			points, err := r.External(metric.Query{Namespace: "shop", Expression: metric.Expression{Name: name, Stat: stat}})
			if err != nil || len(points) != 1 || points[0].Value.Float64() != want {
				t.Errorf("%s: %v, %v; want %v", name, points, err, want)
			}
		}
	})
}
