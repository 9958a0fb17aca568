package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// describeByPod is identity in small: the tags pod and ns name a pod, the rest are labels.
func describeByPod(s *metric.Sample, d *metric.Description) metric.Reason {
	if s.Object != nil {
		d.Object = *s.Object
	}
	for _, l := range s.AppendLabels(nil) {
		switch l.Key {
		case "pod":
			d.Object.Resource, d.Object.Name = "pods", l.Value
		case "ns":
			d.Object.Namespace = l.Value
		case "refuse":
			return metric.Identity
		default:
			d.Labels = append(d.Labels, l)
		}
	}
	d.Labels = metric.SortLabels(d.Labels)
	return metric.Applied
}

// sample reads "name:value|type|@rate|#tags|Tseconds" the short way: the grammar is another
// package's.
func sample(line string) *metric.Sample {
	fields := strings.Split(line, "|")
	name, value, _ := strings.Cut(fields[0], ":")
	s := &metric.Sample{Name: []byte(name), Separator: ':'}
	switch fields[1] {
	case "c":
		s.Kind, s.Op = metric.Counter, metric.Add
	case "g":
		s.Kind, s.Op = metric.Gauge, metric.Assign
		if value[0] == '+' || value[0] == '-' {
			s.Op = metric.Shift
		}
	case "ms":
		s.Kind, s.Op = metric.Timer, metric.Observe
	case "s":
		s.Kind, s.Op, s.Member = metric.Set, metric.Insert, []byte(value)
	}
	if s.Kind != metric.Set {
		if whole, err := strconv.ParseInt(value, 10, 64); err == nil {
			s.Whole = whole
		} else {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(err)
			}
			s.SetFloat(v)
		}
	}
	for _, f := range fields[2:] {
		switch f[0] {
		case '@':
			s.Rate, _ = strconv.ParseFloat(f[1:], 64)
		case '#':
			s.Tags = []byte(f[1:])
		case 'T':
			seconds, _ := strconv.ParseInt(f[1:], 10, 64)
			s.Dated = time.Unix(seconds, 0).UnixNano()
		}
	}
	return s
}

type fixture struct {
	*Table
	t testing.TB
	w *Writer
}

// Objects and External answer from the table alone.
func (t *Table) Objects(q metric.Query) ([]metric.Point, error)  { return NewMerged(t).Objects(q) }
func (t *Table) External(q metric.Query) ([]metric.Point, error) { return NewMerged(t).External(q) }

func newFixture(t testing.TB) *fixture { return newFixtureOf(t, DefaultConfig()) }

func newFixtureOf(t testing.TB, c Config) *fixture {
	table := New(c, describeByPod, quiet())
	return &fixture{Table: table, t: t, w: table.NewWriter()}
}

// checkBalance compares the increments of all counters with those that the table has.
func checkBalance(t testing.TB, table interface {
	Balance() (applied, held [2]int64)
}) {
	t.Helper()
	if applied, held := table.Balance(); applied != held {
		t.Errorf("applied %v, held %v", applied, held)
	}
}

// running starts the roller and stops it with the test.
func (f *fixture) running() *fixture {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	f.t.Cleanup(func() { stop(); <-done })
	return f
}

func (f *fixture) push(lines ...string) {
	f.t.Helper()
	f.w.Online()
	for _, line := range lines {
		if r := f.w.Apply(sample(line)); r != metric.Applied {
			f.t.Fatalf("%s: rejected: %s", line, r)
		}
	}
	f.w.Offline()
}

func (f *fixture) refuses(line string, want metric.Reason) {
	f.t.Helper()
	f.w.Online()
	if got := f.w.Apply(sample(line)); got != want {
		f.t.Errorf("%s: %s, want %s", line, got, want)
	}
	f.w.Offline()
}

// ask returns the values for pods of namespace ns, or what went wrong: "pod=value pod=value".
func (f *fixture) ask(asked string) string {
	return f.askAs(asked, print)
}

// askAs is ask for values in some form.
func (f *fixture) askAs(asked string, form func(metric.Number) string) string {
	points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
	return textOf(points, err, func(p metric.Point) string { return p.Object.Name + "=" + form(p.Value) })
}

// textOf is an answer, or what went wrong.
func textOf(points []metric.Point, err error, form func(metric.Point) string) string {
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, p := range points {
		out = append(out, form(p))
	}
	return strings.Join(out, " ")
}

func (f *fixture) askExternal(namespace, asked string) string {
	points, err := f.External(metric.Query{Namespace: namespace, Expression: metric.ParseExpression(asked)})
	return textOf(points, err, func(p metric.Point) string { return p.Labels.String() + "=" + print(p.Value) })
}

func print(n metric.Number) string {
	if v, ok := n.Int64(); ok {
		return strconv.FormatInt(v, 10)
	}
	return strconv.FormatFloat(n.Float64(), 'g', 7, 64)
}

// value returns the value of pod a.
func (f *fixture) value(asked string) float64 {
	f.t.Helper()
	p, err := f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression(asked)})
	must(f.t, err)
	return p[0].Value.Float64()
}

func (f *fixture) want(asked, want string) {
	f.t.Helper()
	if got := f.ask(asked); got != want {
		f.t.Errorf("%s: %s, want %s", asked, got, want)
	}
}

// start begins a test in virtual time with a table that has been up for two minutes.
func start(t *testing.T, test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		time.Sleep(2*time.Minute + 123*time.Millisecond) // off the ticks: which of two comes first at one instant is chance
		test(f)
	})
}

func TestCounter(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("hits:3|c|#pod:a,ns:ns", "hits:4|c|#pod:a,ns:ns,code:500", "hits:1|c|@0.1|#pod:b,ns:ns")
		f.want("hits:total", "a=7 b=10")
		f.want("hits:count", "a=7 b=10")
		f.want("hits:rate:10s", "a=0.7 b=1") // young: divided by the shortest window
		time.Sleep(30 * time.Second)
		f.want("hits:count", "a=7 b=10")
		f.want("hits:count:10s", "a=0 b=0") // idle is 0, not absent
		time.Sleep(45 * time.Second)
		f.want("hits", "a=0 b=0")
		f.want("hits:total", "a=7 b=10")
	})
}

func TestFractionsAndLargeCounters(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("a:0.4|c|#pod:a,ns:ns", "b:-2.5|c|#pod:a,ns:ns", "b:1|c|#pod:a,ns:ns",
			"c:9007199254740993|c|#pod:a,ns:ns", "d:1|c|@0.3|#pod:a,ns:ns", "d:1|c|@0.3|#pod:a,ns:ns", "d:1|c|@0.3|#pod:a,ns:ns")
		f.want("a:total", "a=0.4")
		f.want("b:total", "a=-1.5")
		f.want("c:total", "a=9007199254740993")
		f.want("d:count", "a=10")
		time.Sleep(10 * time.Second)
		f.push("a:0.4|c|#pod:a,ns:ns")
		time.Sleep(52 * time.Second)
		f.want("a:count", "a=0.4")
		f.want("a:total", "a=0.8")
	})
}

func TestGauge(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("q:+4|g|#pod:b,ns:ns", "q:10|g|#pod:a,ns:ns", "q:-3|g|#pod:a,ns:ns", "q:5|g|#pod:a,ns:ns,x:y")
		f.want("q", "a=12 b=4") // an unset gauge starts at 0; label sets add
		f.want("q:max", "a=12 b=4")
		time.Sleep(30 * time.Second)
		f.push("q:27|g|#pod:a,ns:ns")
		f.want("q:last", "a=32 b=4")
		f.want("q:min", "a=12 b=4")
		f.want("q:max", "a=32 b=4")
		time.Sleep(30 * time.Second)
		f.want("q:mean", "a=21.93677 b=4") // 30 s of 12 and 30 s of 32, give or take half a tick
		f.want("q:mean:10s", "a=32 b=4")
		time.Sleep(time.Hour / 2)
		f.want("q", "a=32 b=4") // stays until it expires
		f.want("q:mean", "a=32 b=4")
	})
}

// The extremes are those of the sum as it stood, not the sum of the extremes.
func TestGaugeRollUp(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("q:10|g|#pod:a,ns:ns,k:1", "q:0|g|#pod:a,ns:ns,k:2")
		time.Sleep(10 * time.Second)
		f.push("q:0|g|#pod:a,ns:ns,k:1", "q:10|g|#pod:a,ns:ns,k:2")
		time.Sleep(10 * time.Second)
		f.want("q:max", "a=10")
		f.want("q:min", "a=10")
	})
}

// The newest of two values stands, however close their dates are, and after a restart, too.
func TestGaugeDatesWithinASecond(t *testing.T) {
	for name, value := range map[string]float64{"float": 0.1 + 0.2, "whole": 7, "decimal": 4294967296.123456} {
		t.Run(name, func(t *testing.T) {
			start(t, func(f *fixture) {
				push := func(f *fixture, v float64, after time.Duration) {
					s := sample("q:0|g|#pod:a,ns:ns")
					s.SetFloat(v)
					s.Dated = time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC).Add(after).UnixNano()
					f.apply(s)
				}
				push(f, value, 500*time.Millisecond)
				stands := f.ask("q")
				push(f, 5, 499999999)
				f.want("q", stands)
				disk := newSaved()
				disk.flush(f.Table, each)
				again := disk.restore(t)
				again.want("q", stands)
				push(again, 5, 499999999)
				again.want("q", stands)
				push(again, 6, 500000001)
				again.want("q", "a=6")
			})
		})
	}
}

func TestGaugeTimestamps(t *testing.T) {
	start(t, func(f *fixture) {
		now := time.Now().Unix()
		f.push("q:1|g|#pod:a,ns:ns")
		f.push(fmt.Sprintf("q:2|g|#pod:a,ns:ns|T%d", now-5))
		f.want("q", "a=1") // late: the plain value is newer
		f.push(fmt.Sprintf("q:3|g|#pod:a,ns:ns|T%d", now))
		f.want("q", "a=3")
		time.Sleep(3 * time.Second)
		f.push("q:4|g|#pod:a,ns:ns", fmt.Sprintf("q:5|g|#pod:a,ns:ns|T%d", now+1))
		f.want("q", "a=4")
		f.push(fmt.Sprintf("q:6|g|#pod:a,ns:ns|T%d", now+3600)) // the future counts as now
		time.Sleep(time.Second)
		f.push("q:+1|g|#pod:a,ns:ns")
		f.want("q", "a=7")
		f.push("q:8|g|#pod:a,ns:ns")
		f.want("q", "a=8")
		f.push(fmt.Sprintf("first:2|g|#pod:a,ns:ns|T%d", now-5))
		f.want("first", "a=2")
		time.Sleep(2 * time.Second)
		f.push(fmt.Sprintf("first:+5|g|#pod:a,ns:ns|T%d", time.Now().Unix()))
		f.want("first", "a=7")
		f.push(fmt.Sprintf("first:8|g|#pod:a,ns:ns|T%d", time.Now().Unix()))
		f.w.Online()
		f.w.Now.Wall = f.w.Now.Wall.Add(-time.Hour) // the wall clock is set back
		dated := sample("first:10|g|#pod:a,ns:ns")
		dated.Dated = f.w.Now.Wall.UnixNano()
		f.w.Apply(dated)
		f.want("first", "a=10")
		f.w.Apply(sample("first:9|g|#pod:a,ns:ns"))
		f.w.Offline()
		f.want("first", "a=9")
	})
}

func TestTimer(t *testing.T) {
	start(t, func(f *fixture) {
		for v := 1; v <= 100; v++ {
			f.push(fmt.Sprintf("t:%d|ms|#pod:a,ns:ns", v))
		}
		f.push("t:1000|ms|@0.5|#pod:b,ns:ns", "t:10|ms|#pod:b,ns:ns")
		f.want("t:count", "a=100 b=3")
		f.want("t:sum", "a=5050 b=2010")
		f.want("t:min", "a=1 b=10")
		f.want("t:max", "a=100 b=1000")
		f.want("t", "a=50.5 b=670")
		f.want("t:rate:10s", "a=10 b=0.3")
		for asked, exact := range map[string]float64{"t:p50": 50, "t:p75": 75, "t:p90": 90, "t:p95": 95, "t:p99": 99, "t:p999": 100} {
			if v := f.value(asked); v < exact*0.99 || v > exact*1.01 {
				t.Errorf("%s: %v, want %v within 1 %%", asked, v, exact)
			}
		}
		time.Sleep(20 * time.Second)
		f.want("t:count", "a=100 b=3")
		f.want("t:count:10s", "a=0 b=0")
		f.want("t:sum:10s", "a=0 b=0")
		if got := f.ask("t:p95:10s"); got != `"t" for pods in "ns" has no p95: nothing was observed in the last 10s` {
			t.Error(got)
		}
	})
}

func TestSet(t *testing.T) {
	start(t, func(f *fixture) {
		for i := range 1000 {
			f.push(fmt.Sprintf("u:user%d|s|#pod:a,ns:ns", i), fmt.Sprintf("u:user%d|s|#pod:a,ns:ns,k:v", i/2))
		}
		f.want("u", "a=1000") // sets unite, and are exact while small
		time.Sleep(30 * time.Second)
		f.push("u:user7|s|#pod:a,ns:ns")
		f.want("u:unique:10s", "a=1")
		time.Sleep(35 * time.Second)
		f.want("u", "a=1")
		time.Sleep(time.Minute)
		f.want("u", "a=0")
	})
}

func TestSetOfMany(t *testing.T) {
	start(t, func(f *fixture) {
		const members = 50_000
		for i := range members {
			f.push(fmt.Sprintf("u:user%d|s|#pod:a,ns:ns", i))
		}
		for _, wait := range []time.Duration{0, 5 * time.Second, 45 * time.Second} {
			time.Sleep(wait)
			// Two standard errors and some: the hashes differ from run to run.
			if v := f.value("u"); v < members*0.94 || v > members*1.06 {
				t.Errorf("%v, want about %d", v, members)
			}
		}
		time.Sleep(15 * time.Second)
		f.want("u", "a=0")
	})
}

func TestExternal(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("jobs:3|c|#ns:shop,q:a,z:1", "jobs:4|c|#ns:shop,q:b,z:1", "jobs:9|c", "d:10|ms|#ns:shop,q:a,z:1", "d:20|ms|#ns:shop,q:b,z:1")
		for _, c := range []struct{ namespace, asked, want string }{
			{"shop", "jobs:total", "{q=a,z=1}=3 {q=b,z=1}=4"}, // adds: one item a label set
			{"shop", "d:max", "{z=1}=20"},                     // does not: one item, the shared labels
			{"shop", "d:sum", "{q=a,z=1}=10 {q=b,z=1}=20"},
			{"other", "jobs:total", "{}=9"}, // none of its own: the cluster-wide one
			{"", "jobs:total", "{}=9"},
			{"other", "d", `no series of "d" among external metrics in "other": none was ever received`},
		} {
			if got := f.askExternal(c.namespace, c.asked); got != c.want {
				t.Errorf("%s in %q: %s, want %s", c.asked, c.namespace, got, c.want)
			}
		}
	})
}

// An answer that waits for its turn says what is so afterwards.
func TestAnswersAreOfWhenTheirTurnCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		time.Sleep(123 * time.Millisecond) // off the ticks, as in start
		work := func(seconds int) {
			for range seconds {
				f.push("jobs:1|c|#ns:shop", "jobs:1|c|#ns:shop,pod:a")
				time.Sleep(time.Second)
			}
		}
		work(60)
		wait := func(int) ([]metric.Point, error) {
			work(7)
			return nil, nil
		}
		for resource, ask := range map[string]func(metric.Query) ([]metric.Point, error){"": f.External, "pods": f.Objects} {
			points, err := ask(metric.Query{Resource: resource, Namespace: "shop", Object: "*", Expression: metric.ParseExpression("jobs:count:10s"), Reserve: wait})
			if err != nil || len(points) != 1 {
				t.Fatal(points, err)
			}
			if n := points[0].Value.Float64(); n < 9 || n > 11 {
				t.Errorf("%q: %v in 10 s of one a second", resource, n)
			}
		}
	})
}

func TestWhatCannotBeAsked(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("hits:3|c|#pod:a,ns:ns", "q:1|g|#pod:a,ns:ns")
		f.want("hits:p95", `"hits" is a counter: it has rate, count, total, but no p95`)
		f.want("hits:rate:7m", `window 7m of "hits:rate:7m" is not kept; the windows are 10s, 1m`)
		f.want("q:last:10s", `"q:last:10s": last is the same in every window; ask for "q:last"`)
		f.want("nope", `no series of "nope" for pods in "ns": none was ever received`)
		f.want("hits:avg", `no series of "hits:avg" for pods in "ns": none was ever received; "hits" is a counter: it has rate, count, total, in the windows 10s, 1m, but no "avg"`)
		f.want("hits:10x:rate", `no series of "hits:10x" for pods in "ns": none was ever received; "hits" is a counter: it has rate, count, total, in the windows 10s, 1m, but no "10x"`)
		_, err := f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("hits:p95")})
		if !errors.Is(err, metric.ErrInvalidQuery) {
			t.Errorf("%v is no ErrAsked", err)
		}
		_, err = f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("nope")})
		if !errors.Is(err, metric.ErrNotFound) {
			t.Errorf("%v is no ErrNotFound", err)
		}
		_, err = f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("q"),
			MatchLabels: func(metric.Labels) bool { return false }})
		if err == nil || err.Error() != `no series of "q" for pods in "ns" has labels that match the selector` {
			t.Error(err)
		}
	})
}

func TestKindConflict(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("x:3|c|#pod:a,ns:ns", "x:3|g|#pod:b,ns:ns")
		f.refuses("x:3|g|#pod:a,ns:ns", metric.KindConflict)
		f.refuses("x:3|g|#pod:a,ns:ns", metric.KindConflict) // remembered
		f.refuses("x:3|ms|#pod:a,ns:ns,k:v", metric.KindConflict)
		for pod, want := range map[string]metric.Kind{"a": metric.Counter, "b": metric.Gauge, "c": metric.NoKind} {
			if got := f.Table.KindOf(&metric.Object{Resource: "pods", Namespace: "ns", Name: pod}, "x"); got != want {
				t.Errorf("x of %s is a %v, want %v", pod, got, want)
			}
		}
		if n := f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression("x")}); n != 1 {
			t.Errorf("deleted %d, want 1", n)
		}
		f.push("x:3|g|#pod:a,ns:ns") // until the old one is gone
		f.want("x", "a=3 b=3")
	})
}

func TestNamesThatCannotBeAsked(t *testing.T) {
	start(t, func(f *fixture) {
		for _, name := range []string{"a%b", "a?b", ".", "..", "status", "finalize", "a\x00b"} {
			f.refuses(name+":1|c", metric.BadName)
		}
		f.refuses("long"+strings.Repeat("x", metric.MaxNameLength)+":1|c", metric.TooLong)
		f.refuses("a\xff:1|c", metric.BadName)
		f.refuses("a:1|c|#k:\xff", metric.Malformed)
		f.refuses("a:1|c|#\xff:v", metric.Malformed)
		f.refuses("a:1|c|#refuse:me", metric.Identity)
		f.push("a/b:1|c", "a..b:1|c")
	})
}

func TestDelete(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("x:1|c|#pod:a,ns:ns,k:1", "x:2|c|#pod:a,ns:ns,k:2", "x:4|c|#pod:b,ns:ns")
		q := metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression("x"),
			MatchLabels: func(l metric.Labels) bool { v, _ := l.Get("k"); return v == "1" }}
		if n := f.Delete(q); n != 1 {
			t.Errorf("deleted %d, want 1", n)
		}
		f.want("x:total", "a=2 b=4")
		f.push("x:1|c|#pod:a,ns:ns,k:1") // begins anew, by the same bytes
		f.want("x:total", "a=3 b=4")
		q.MatchLabels, q.Object = nil, "*"
		if n := f.Delete(q); n != 3 {
			t.Errorf("deleted %d, want 3", n)
		}
		f.want("x", `no series of "x" for pods in "ns"; last seen 0s ago, deleted`)
		q.Object = "never"
		if _, err := f.Objects(q); err == nil || err.Error() != `no series of "x" for pods/never in "ns": none was ever received` {
			t.Error(err)
		}
	})
}

// TestEndUngrouped: of the series that live as long as their group, those that no group has end, also after a restart;
// others stay.
func TestEndUngrouped(t *testing.T) {
	start(t, func(f *fixture) {
		disk := newSaved()
		for _, line := range []string{"kept:1|g|#a:1", "lost:1|g|#a:1", "kept:1|g|#pod:a,ns:ns", "lost:1|g|#pod:a,ns:ns", "lost:1|g|#pod:a,ns:ns,a:1"} {
			s := sample(line)
			s.TTL = metric.WithGroup
			f.apply(s)
		}
		for name, ttl := range map[string]time.Duration{"forever": metric.Forever, "longest": metric.Forever - 1, "plain": 0} {
			s := sample(name + ":1|g")
			s.TTL = ttl
			f.apply(s)
		}
		time.Sleep(2 * time.Second)
		disk.flush(f.Table, each)
		again := disk.restore(t)
		pod := metric.Object{Resource: "pods", Namespace: "ns", Name: "a"}
		gone := again.EndUngrouped(func(has func(metric.Object, string, []metric.Labels)) {
			has(metric.Object{}, "kept", []metric.Labels{metric.NewLabels([]metric.Label{{Key: "a", Value: "1"}})})
			has(pod, "kept", []metric.Labels{{}})
			has(pod, "lost", []metric.Labels{metric.NewLabels([]metric.Label{{Key: "a", Value: "1"}})})
		})
		if gone != 2 || again.Series() != 6 {
			t.Errorf("%d series ended and %d are left, want 2 and 6", gone, again.Series())
		}
	})
}

func TestLifetimes(t *testing.T) {
	start(t, func(f *fixture) {
		f.config.ExternalTTL = 4 * time.Hour
		f.push("x:1|c|#pod:a,ns:ns", "y:1|c|#pod:a,ns:ns", "e:1|c")
		s := sample("t:1|g|#pod:a,ns:ns")
		s.TTL = 10 * time.Second
		f.w.Apply(s)
		s = sample("f:1|g|#pod:a,ns:ns")
		s.TTL = metric.Forever
		f.w.Apply(s)
		f.w.Offline()
		time.Sleep(15 * time.Second)
		f.want("t", `no series of "t" for pods in "ns"; last seen 15s ago, expired after 10s`)
		time.Sleep(45 * time.Minute)
		f.want("t", `no series of "t" for pods in "ns"; last seen 45m ago, expired after 10s`)
		f.push("y:1|c|#pod:a,ns:ns")
		time.Sleep(20 * time.Minute)
		f.want("x", `no series of "x" for pods in "ns"; last seen 1h ago, expired after 1h`)
		f.want("y:total", "a=2")
		time.Sleep(2 * time.Hour)
		if got := f.askExternal("", "e:total"); got != "{}=1" {
			t.Error(got)
		}
		time.Sleep(2 * time.Hour)
		if got := f.askExternal("", "e:total"); got != `no series of "e" among external metrics; last seen 5h ago, expired after 4h` {
			t.Error(got)
		}
		f.want("f", "a=1")
	})
}

func TestListed(t *testing.T) {
	start(t, func(f *fixture) {
		if got := f.Listed(10); len(got) != 0 {
			t.Error(got)
		}
		f.push("b:1|c|#pod:a,ns:ns", "a:1|c|#pod:a,ns:ns", "a:1|c|#pod:b,ns:other", "z:1|g", "y:1|g")
		if got := fmt.Sprint(f.Listed(10)); got != "[{ y gauge} { z gauge} {pods a counter} {pods b counter}]" {
			t.Error(got)
		}
		if got := fmt.Sprint(f.Listed(1)); got != "[{ y gauge} {pods a counter}]" {
			t.Error(got) // the first of each sort: neither crowds the other out
		}
		if got := f.Listed(0); len(got) != 0 {
			t.Error(got)
		}
	})
}

// Discovery of very many names costs a share of the time, however many clients ask.
func TestListedIsKeptWhenItIsDear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.push("a:1|c")
		f.Listed(10)
		f.index.List.Took = time.Second // as if there were millions
		f.push("b:1|c")
		if got := f.Listed(10); len(got) != 1 {
			t.Error(got)
		}
		time.Sleep(11 * time.Second)
		if got := f.Listed(10); len(got) != 2 {
			t.Error(got)
		}
	})
}

func TestPoint(t *testing.T) {
	start(t, func(f *fixture) {
		pushed := time.Now()
		f.push("x:1|c|#pod:a,ns:ns")
		time.Sleep(20 * time.Second)
		for asked, want := range map[string]metric.Point{
			"x":           {Time: time.Now(), Window: time.Minute},
			"x:count:10s": {Time: time.Now(), Window: 10 * time.Second},
			"x:total":     {Time: pushed},
		} {
			p, err := f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression(asked)})
			must(t, err)
			if off := p[0].Time.Sub(want.Time).Abs(); off > time.Second || p[0].Window != want.Window {
				t.Errorf("%s: %s, %s, want %s, %s", asked, p[0].Time, p[0].Window, want.Time, want.Window)
			}
			if p[0].Object != (metric.Object{Resource: "pods", Namespace: "ns", Name: "a"}) {
				t.Error(p[0].Object)
			}
		}
	})
}

// A regular interval longer than a third of the window is warned of, once; a shorter one and rare
// events are not.
func TestSlowPushersAreWarnedOf(t *testing.T) {
	start(t, func(f *fixture) {
		var logged strings.Builder
		f.slow.log = slog.New(slog.NewTextHandler(&logged, nil))
		r := rand.New(rand.NewPCG(3, 3))
		for second := range 1200 {
			if second%15 == 0 {
				f.push("often:1|c|#pod:a,ns:ns")
			}
			if second%30 == 0 {
				f.push("slow:1|c|#pod:a,ns:ns")
			}
			if r.IntN(30) == 0 {
				f.push("rare:1|c|#pod:a,ns:ns")
			}
			time.Sleep(time.Second)
			f.ask("often")
			f.ask("slow")
			f.ask("rare")
		}
		if n := strings.Count(logged.String(), "level=WARN"); n != 1 || !strings.Contains(logged.String(), "metric=slow object=\"pods/a in ns\" interval=3") {
			t.Errorf("%d warnings: %s", n, logged.String())
		}
		if f.slow.seen.Load() == 0 {
			t.Error("not counted")
		}
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
