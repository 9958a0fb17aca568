package aggregate

import (
	"testing"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/metric"
)

// readings are what each stat of each kind reads of the samples below: a stat that a kind is given
// has a line here.
var readings = map[metric.Kind]struct {
	name string
	want map[metric.Stat]string
}{
	metric.Counter: {"c", map[metric.Stat]string{metric.Rate: "a=4", metric.Count: "a=40", metric.Total: "a=40"}},
	metric.Gauge:   {"g", map[metric.Stat]string{metric.Last: "a=10", metric.Mean: "a=10", metric.Min: "a=10", metric.Max: "a=10"}},
	metric.Timer: {"t", map[metric.Stat]string{metric.Mean: "a=25", metric.Min: "a=10", metric.Max: "a=40", metric.Sum: "a=100",
		metric.Count: "a=4", metric.Rate: "a=0.4", metric.P50: "a=19.88667", metric.P75: "a=30.26717", metric.P90: "a=40",
		metric.P95: "a=40", metric.P99: "a=40", metric.P999: "a=40"}},
	metric.Set: {"s", map[metric.Stat]string{metric.Unique: "a=2"}},
}

// Every stat of every kind reads what it should.
func TestEveryStatOfEveryKind(t *testing.T) {
	start(t, func(f *fixture) {
		f.pushReadings()
		for _, kind := range metric.Kinds() {
			for _, stat := range kind.Stats() {
				want, ok := readings[kind].want[stat]
				if !ok {
					t.Errorf("no test says what %s of a %s reads", stat, kind)
				}
				f.want(readings[kind].name+":"+stat.String(), want)
			}
		}
	})
}

func (f *fixture) pushReadings() {
	f.push("c:40|c|#pod:a,ns:ns", "g:10|g|#pod:a,ns:ns", "s:x|s|#pod:a,ns:ns", "s:y|s|#pod:a,ns:ns")
	f.push("t:10|ms|#pod:a,ns:ns", "t:20|ms|#pod:a,ns:ns", "t:30|ms|#pod:a,ns:ns", "t:40|ms|#pod:a,ns:ns")
}

// A stat that a kind is said to have, and that nothing reads, is an error and no number.
func TestAStatThatNothingReadsIsNoNumber(t *testing.T) {
	start(t, func(f *fixture) {
		f.pushReadings()
		for kind, reads := range readings {
			for stat := metric.NoStat; stat < metric.Unique+3; stat++ {
				if kind.Has(stat) {
					continue
				}
				q := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.Expression{Name: reads.name}}
				key := index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: reads.name}
				r, entries, err := f.plan(&q, key, f.index.ScopeOf(key, &q))
				if err != nil {
					t.Fatal(err)
				}
				r.Stat = stat
				r.begin()
				r.add(entries[0].Series[0])
				if p, ok := r.point(); ok || r.QueryError(&q) == nil {
					t.Errorf("%s of a %s reads %+v", stat, kind, p.Value)
				}
				r.end()
			}
		}
	})
}
