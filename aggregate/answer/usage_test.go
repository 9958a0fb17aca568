package answer

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// usedPods says that the pods a and b use 7.
type usedPods struct{ news *atomic.Uint64 }

func (u usedPods) News() uint64 { return u.news.Load() }

func (usedPods) Has(resource, name string) bool { return resource == "pods" && name == "cpu" }

func (usedPods) Listed() []metric.Discovered {
	return []metric.Discovered{{Resource: "pods", Name: "cpu", Kind: metric.Gauge}}
}

func (usedPods) Points(q metric.Query) (points []metric.Point, err error) {
	for _, name := range []string{"a", "b"} {
		if q.Object == "*" || q.Object == name {
			points = append(points, metric.Point{Object: metric.Object{Resource: "pods", Namespace: q.Namespace, Name: name}, Value: metric.Int(7)})
		}
	}
	return points, nil
}

const cpuRules = `
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: twice, namespace: ruled}
spec: {metric: twice, let: {used: cpu}, value: "used * 2.0"}
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: own, namespace: own}
spec: {metric: cpu, let: {load: load}, value: "load * 3.0"}
`

// Of one name, a pushed series comes before a rule, and a rule before usage; an answer has either pushed
// values or usage. A rule reads usage.
func TestPrecedenceOfUsage(t *testing.T) {
	documents, err := rule.Parse("rules", []byte(cpuRules))
	must(t, err)
	var current rule.Current
	current.Replace(rule.NewSet(documents, nil, nil))
	must(t, current.Set().Faults())
	table := aggregate.New(aggregate.DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object = *s.Object
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	writer := table.NewWriter()
	for _, pushed := range []struct{ namespace, pod, name string }{{"pushed", "a", "cpu"}, {"own", "a", "load"}} {
		writer.Apply(&metric.Sample{Name: []byte(pushed.name), Kind: metric.Gauge, Op: metric.Assign, Whole: 2,
			Object: &metric.Object{Resource: "pods", Namespace: pushed.namespace, Name: pushed.pod}})
	}
	writer.Offline()
	r := New(Parts{Merged: aggregate.NewMerged(table), Rules: &current, Usage: usedPods{new(atomic.Uint64)}})
	for _, c := range []struct{ namespace, object, name, want string }{
		{"idle", "*", "cpu", "[a=7 b=7]"},
		{"idle", "b", "cpu", "[b=7]"},
		{"idle", "*", "cpu:max:1d", "[a=7 b=7]"}, // tables keep 10s and 1m
		{"pushed", "*", "cpu:max:1d", "[]"},
		{"pushed", "b", "cpu:max:1d", "[b=7]"},
		{"pushed", "*", "cpu", "[a=2]"},
		{"pushed", "a", "cpu", "[a=2]"},
		{"pushed", "b", "cpu", "[b=7]"},
		{"ruled", "a", "twice", "[a=14]"},
		{"ruled", "*", "twice", "[a=14 b=14]"},
		{"own", "a", "cpu", "[a=6]"},
		{"own", "b", "cpu", "[]"},
		{"idle", "a", "memory", "[]"},
	} {
		points, _ := r.Objects(metric.Query{Namespace: c.namespace, Resource: "pods", Object: c.object, Expression: metric.ParseExpression(c.name)})
		got := []string{}
		for _, p := range points {
			got = append(got, fmt.Sprintf("%s=%s", p.Object.Name, p.Value.Append(nil)))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s of %s in %s: %v, want %s", c.name, c.object, c.namespace, got, c.want)
		}
	}
	listed := r.Listed(10, nil)
	if at := slices.Index(listed, metric.Discovered{Resource: "pods", Name: "cpu", Kind: metric.Gauge}); at < 0 || at > 3 {
		t.Errorf("%v lacks usage, or has others before it", listed)
	}
}

// News of usage changes the answers that may have some, a quarter of a second late at most, and no others.
func TestNewsOfUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current rule.Current
		documents, err := rule.Parse("rules", []byte(cpuRules))
		must(t, err)
		current.Replace(rule.NewSet(documents, nil, nil))
		used := usedPods{new(atomic.Uint64)}
		table := aggregate.New(aggregate.DefaultConfig(), nil, slog.New(slog.DiscardHandler))
		watches := NewWatches(aggregate.NewMerged(table), &current, used)
		changed := map[string]int{}
		for _, name := range []string{"cpu", "twice", "load"} {
			q := metric.Query{Namespace: "ruled", Resource: "pods", Object: "*", Expression: metric.ParseExpression(name)}
			watches.Watch(func() (metric.Query, error) { return q, nil }, func() { changed[name]++ }).Follow()
		}
		for range 40 { // of 25 ms
			used.news.Add(1)
			watches.Look()
			time.Sleep(25 * time.Millisecond)
		}
		if changed["cpu"] != 4 || changed["twice"] != 4 || changed["load"] != 0 {
			t.Errorf("within a second the answers changed %v times, want cpu and twice 4 times", changed)
		}
		clear(changed)
		for range 40 {
			watches.Look()
			time.Sleep(25 * time.Millisecond)
		}
		if changed["cpu"] > 1 {
			t.Errorf("without news the answer changed %d times", changed["cpu"])
		}
	})
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
