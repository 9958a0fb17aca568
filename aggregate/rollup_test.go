package aggregate

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// rawSample is a sample as a client pushed it.
type rawSample struct {
	pod, code, metric string
	value             float64
	member            string // of a set
	at                time.Time
}

// raw holds all samples of a test, and computes what a roll-up must be.
type raw []rawSample

// push pushes a random sample to one of the origins.
func (r *replicas) pushRaw(random *rand.Rand, all *raw) {
	one := rawSample{
		pod: fmt.Sprintf("p%d", random.IntN(6)), code: fmt.Sprint(random.IntN(2)), at: time.Now(),
		metric: []string{"whole", "decimal", "lat", "users", "temp"}[random.IntN(5)],
	}
	to := random.IntN(len(r.tables))
	text, sort := "", "c"
	switch one.metric {
	case "whole":
		one.value = float64(random.IntN(9))
	case "decimal":
		one.value = float64(random.IntN(9000)) / 1000
	case "lat":
		one.value, sort = float64(1+random.IntN(500)), "ms"
	case "users":
		one.member, sort = fmt.Sprintf("u%d", random.IntN(60)), "s"
		text = one.member
	case "temp": // two changes within a tick at two origins have no order
		one.value, sort, to = float64(random.IntN(100)), "g", int(one.pod[1])%len(r.tables)
	}
	if text == "" {
		text = fmt.Sprint(one.value)
	}
	r.tables[to].push(fmt.Sprintf("%s:%s|%s|#pod:%s,ns:ns,code:%s", one.metric, text, sort, one.pod, one.code))
	*all = append(*all, one)
}

// stat computes a stat over the samples of some pods, and the number of pods that have any.
func (all raw) stat(name string, stat metric.Stat, pods []string, code string, now time.Time) (v float64, with int, ok bool) {
	var values []float64
	last, members, have := map[string]float64{}, map[string]bool{}, map[string]bool{}
	first := map[string]time.Time{}
	for _, r := range all {
		if r.metric != name || !slices.Contains(pods, r.pod) || code != "" && r.code != code {
			continue
		}
		have[r.pod] = true
		values = append(values, r.value)
		key := r.pod + "," + r.code
		last[key], members[r.member] = r.value, true
		if _, known := first[r.pod]; !known {
			first[r.pod] = r.at
		}
	}
	slices.Sort(values)
	sum := func(all []float64) (sum float64) {
		for _, v := range all {
			sum += v
		}
		return sum
	}
	if len(values) == 0 {
		return 0, 0, false
	}
	switch stat {
	case metric.Total, metric.Sum:
		v = sum(values)
	case metric.Count:
		if v = sum(values); name == "lat" {
			v = float64(len(values))
		}
	case metric.Rate: // of each pod over the time since its first sample
		for pod, born := range first {
			count, _, _ := all.stat(name, metric.Count, []string{pod}, code, now)
			v += count / max(now.Sub(born), 10*time.Second).Seconds()
		}
	case metric.Last:
		v = sum(slices.Collect(maps.Values(last)))
	case metric.Unique:
		v = float64(len(members))
	case metric.Mean:
		v = sum(values) / float64(len(values))
	case metric.Min:
		v = values[0]
	case metric.Max:
		v = values[len(values)-1]
	default:
		v = values[max(int(math.Ceil(stat.Quantile()*float64(len(values)))), 1)-1]
	}
	return v, len(have), true
}

// rolledUp asks for a roll-up of some pods.
func rolledUp(expression string, pods []string, code string) (metric.Query, *int) {
	with := new(int)
	q := metric.Query{
		Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(expression),
		ListObjects: func(int) (iter.Seq[metric.Object], int, bool) {
			return func(yield func(metric.Object) bool) {
				for _, name := range pods {
					if !yield(metric.Object{Resource: "pods", Namespace: "ns", Name: name}) {
						return
					}
				}
			}, len(pods), true
		},
		RollUp: &metric.RollUp{
			Object: metric.Object{Resource: "deployments.apps", Namespace: "ns", Name: "web"},
			Each:   func(metric.Object) { *with++ },
		},
	}
	if code != "" {
		q.MatchLabels = func(l metric.Labels) bool { v, _ := l.Get("code"); return v == code }
	}
	return q, with
}

// An answer is what the samples of a pod say, and a roll-up those of its pods, whichever origins received
// them.
func TestRollUpEqualsBruteForce(t *testing.T) {
	tolerances := map[string]float64{
		"whole:total": 0, "whole:count:1m": 0, "whole:rate:1m": 0.05, "decimal:total": 1e-9, "decimal:count:1m": 1e-9,
		"lat:count:1m": 0, "lat:sum:1m": 1e-9, "lat:mean:1m": 1e-9, "lat:min:1m": 0, "lat:max:1m": 0,
		"lat:p50:1m": 0.01, "lat:p95:1m": 0.01, "lat:p999:1m": 0.01, "users:unique:1m": 0, "temp:last": 0,
	}
	for seed := range uint64(size(12, 6, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			replicated(t, 1+int(seed+1)%3, func(r *replicas) {
				random := rand.New(rand.NewPCG(seed, 60))
				var all raw
				for begun := time.Now(); time.Since(begun) < 45*time.Second; {
					r.pushRaw(random, &all)
					time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
				}
				time.Sleep(600 * time.Millisecond) // the last flush
				synctest.Wait()
				for i := range 6 {
					one := []string{fmt.Sprint("p", i)}
					for expression, tolerance := range tolerances {
						q := metric.Query{Resource: "pods", Namespace: "ns", Object: one[0], Expression: metric.ParseExpression(expression)}
						points, err := r.Objects(q)
						want, _, ok := all.stat(q.Expression.Name, q.Expression.Stat, one, "", time.Now())
						if ok && (err != nil || len(points) != 1 || math.Abs(points[0].Value.Float64()-want) > tolerance*math.Abs(want)) {
							t.Errorf("%s of %s: %v, %v; want %v", expression, one, points, err, want)
						}
					}
				}
				for range 8 {
					pods := []string{"p7"} // never pushed
					for i := range 6 {
						if random.IntN(2) == 0 {
							pods = append(pods, fmt.Sprintf("p%d", i))
						}
					}
					code := []string{"", "0", "1", "none"}[random.IntN(4)]
					for expression, tolerance := range tolerances {
						q, with := rolledUp(expression, pods, code)
						points, err := r.Objects(q)
						e := q.Expression
						want, pushed, ok := all.stat(e.Name, e.Stat, pods, code, time.Now())
						switch {
						case !ok:
							if err == nil {
								t.Errorf("%s of %v, code %q: %v; want none", expression, pods, code, points)
							}
							continue
						case err != nil || len(points) != 1 || points[0].Object != q.RollUp.Object || *with != pushed:
							t.Fatalf("%s of %v, code %q: %v of %d pods, %v; want %v of %d", expression, pods, code, points, *with, err, want, pushed)
						}
						if got := points[0].Value.Float64(); math.Abs(got-want) > tolerance*math.Abs(want) {
							t.Errorf("%s of %v, code %q: %v, want %v", expression, pods, code, got, want)
						}
					}
				}
			})
		})
	}
}

// A roll-up of gauges over a window is that of one object with all their label sets.
func TestRollUpReadsPodsAsLabelSets(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		random := rand.New(rand.NewPCG(1, 61))
		for begun := time.Now(); time.Since(begun) < 90*time.Second; {
			value, pod := random.IntN(100), random.IntN(3)
			to := r.tables[pod%2]
			to.push(fmt.Sprintf("temp:%d|g|#pod:p%d,ns:ns", value, pod))
			to.push(fmt.Sprintf("temp:%d|g|#pod:all,ns:ns,of:p%d", value, pod))
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		}
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		for _, expression := range []string{"temp", "temp:mean:10s", "temp:min:1m", "temp:max:1m", "temp:mean:1m"} {
			q, _ := rolledUp(expression, []string{"p0", "p1", "p2"}, "")
			got, err := r.Objects(q)
			must(t, err)
			q = metric.Query{Resource: "pods", Namespace: "ns", Object: "all", Expression: q.Expression}
			if want, err := r.Objects(q); err != nil || got[0].Value != want[0].Value || got[0].Window != want[0].Window {
				t.Errorf("%s: %v, want %v (%v)", expression, got, want, err)
			}
		}
	})
}

// The time of a last value is that of the pod that was heard longest ago.
func TestRollUpIsAsOldAsItsOldestPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		f.push("temp:1|g|#pod:p0,ns:ns,code:0")
		time.Sleep(20 * time.Second)
		f.push("temp:1|g|#pod:p0,ns:ns,code:1")
		old := time.Now()
		time.Sleep(20 * time.Second)
		f.push("temp:2|g|#pod:p1,ns:ns")
		time.Sleep(5 * time.Second)
		q, _ := rolledUp("temp", []string{"p0", "p1"}, "")
		points, err := NewMerged(f.Table).Objects(q)
		if err != nil || points[0].Value != metric.Int(4) || points[0].Time.Sub(old).Abs() > time.Second {
			t.Errorf("%v, %v; want 4 of %s", points, err, old)
		}
	})
}

// Of pods that have a metric in different kinds, one kind is read.
func TestRollUpReadsOneKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		f.push("x:5|c|#pod:p0,ns:ns", "x:7|c|#pod:p1,ns:ns", "x:30|ms|#pod:p2,ns:ns")
		time.Sleep(2 * time.Second)
		for expression, want := range map[string]string{"x:count": "12 of 2", "x:total": "12 of 2", "x:p95": "30 of 1"} {
			q, with := rolledUp(expression, []string{"p0", "p1", "p2"}, "")
			points, err := NewMerged(f.Table).Objects(q)
			if err != nil {
				t.Fatal(expression, err)
			}
			if got := fmt.Sprintf("%.0f of %d", points[0].Value.Float64(), *with); got != want {
				t.Errorf("%s: %s, want %s", expression, got, want)
			}
		}
	})
}

// The windows of all queries of a snapshot end at one moment, before or after a flush of others.
func TestSnapshotIsOneMoment(t *testing.T) {
	for n := range 2 {
		replicated(t, n+1, func(r *replicas) {
			for range 30 {
				r.tables[0].push("a:1|c|#pod:p0,ns:ns", "b:1|c|#pod:p0,ns:ns", "c:1|c|#ns:ns,external:1")
				time.Sleep(time.Second)
			}
			s := r.Begin()
			q := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("a:rate:10s")}
			first, err := s.Objects(q)
			must(t, err)
			time.Sleep(700 * time.Millisecond)
			q.Expression.Name = "b"
			second, err := s.Objects(q)
			if err != nil || first[0].Time != second[0].Time || first[0].Value != second[0].Value {
				t.Errorf("%v, then %v (%v)", first, second, err)
			}
			if zero := s.Zero(q.Expression); zero.Time != first[0].Time || zero.Window != 10*time.Second {
				t.Errorf("zero: %v", zero)
			}
			if fresh, _ := r.Objects(q); !fresh[0].Time.After(first[0].Time) {
				t.Errorf("a query of now: %v", fresh)
			}
		})
	}
}
