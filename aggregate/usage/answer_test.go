package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// answered is a node with the pods web-0, of two containers, and new-0, of which one is not known yet.
func answered() *Answers {
	now := time.Now()
	windows := func(unit float64) (u Usage) {
		u.End = now.Add(-5 * time.Second)
		for w := range u.Windows {
			times := unit * float64(w+1)
			u.Windows[w] = Derived{Mean: times, Max: 3 * times, NinetyFive: 2 * times, Covered: time.Second}
		}
		return u
	}
	of := func(pod, container string, cores, bytes float64) Record {
		return Record{Container: metric.Container{Namespace: "shop", Pod: pod, Name: container}, Started: now.Add(-time.Hour),
			Since: now.Add(-time.Hour), CPU: windows(cores), Memory: windows(bytes)}
	}
	young := of("new-0", "proxy", 1, 1)
	young.CPU, young.Memory = Usage{}, Usage{}
	renewed := of("again-0", "web", 1, 1)
	renewed.Started = now
	node := Record{CPU: windows(4), Memory: windows(8e9)}
	latest := NewLatest()
	latest.Set("a", Report{Number: 1, At: now, Records: []Record{node, of("web-0", "web", 0.1, 1e6), of("web-0", "proxy", 0.02, 1e3),
		of("new-0", "web", 1, 1), young, renewed}}, now)
	return &Answers{Latest: latest,
		Pods: func(namespace, name string) (all []Pod) {
			for _, known := range []string{"web-0", "new-0", "again-0", "other-0"} {
				created := now.Add(-2 * time.Hour)
				if known == "again-0" {
					created = now.Add(-time.Minute)
				}
				if namespace == "shop" && (name == "" || name == known) {
					all = append(all, Pod{Namespace: "shop", Name: known, UID: "u-" + known, Node: "a", Created: created})
				}
			}
			return all
		},
		Node: func(name string) (string, time.Time, bool) { return "n", now.Add(-time.Hour), name == "a" },
	}
}

// A pod has the sum of its containers, in all windows and stats, and nothing while one of them is not known.
func TestUsageAsMetrics(t *testing.T) {
	a := answered()
	for _, c := range []struct{ resource, object, expression, want string }{
		{"pods", "*", "cpu", "web-0 0.12 0s"},
		{"pods", "web-0", "cpu:last", "web-0 0.12 0s"},
		{"pods", "*", "cpu:mean", "web-0 0.24 1m"},
		{"pods", "web-0", "cpu:max:10s", "web-0 0.36 10s"},
		{"pods", "web-0", "cpu:p95:1d", "web-0 0.96 1d"},
		{"pods", "web-0", "memory:max:1h", "web-0 9009000 1h"},
		{"nodes", "*", "cpu:p95:1m", "a 16 1m"},
		{"nodes", "a", "memory", "a 8000000000 0s"},
		{"pods", "new-0", "cpu", "not found"},
		{"pods", "again-0", "cpu", "not found"},
		{"pods", "other-0", "cpu", "not found"},
		{"nodes", "b", "cpu", "not found"},
		{"pods", "*", "cpu:rate", "must be last, mean, max or p95"},
		{"pods", "*", "cpu:max:5m", "the windows are 10s, 1m, 1h and 1d"},
	} {
		kind := metric.NoKind
		points, err := a.Points(metric.Query{Namespace: "shop", Resource: c.resource, Object: c.object,
			Expression: metric.ParseExpression(c.expression), Kind: &kind})
		got := ""
		for _, p := range points {
			got += fmt.Sprintf("%s %s %s", p.Object.Name, p.Value.Append(nil), metric.FormatWindow(p.Window))
		}
		switch {
		case errors.Is(err, metric.ErrNotFound):
			got = "not found"
		case err != nil:
			got = err.Error()
		case kind != metric.Gauge:
			t.Errorf("%s is a %v", c.expression, kind)
		}
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%s of %s %s is %q, want %q", c.expression, c.resource, c.object, got, c.want)
		}
	}
}

// A selector of the label container adds up the containers that it selects, and others leave out objects.
func TestSelectedUsage(t *testing.T) {
	a := answered()
	q := metric.Query{Namespace: "shop", Resource: "pods", Object: "*", Expression: metric.ParseExpression("cpu"),
		MatchLabels: func(l metric.Labels) bool { name, _ := l.Get("container"); return name == "web" }}
	points, err := a.Points(q)
	if err != nil || len(points) != 2 || string(points[1].Value.Append(nil)) != "0.1" {
		t.Errorf("%v %v, want new-0, whose container web is known, and 0.1 of web-0", points, err)
	}
	q.MatchObject = func(o metric.Object) bool { return o.UID == "u-web-0" }
	if points, err = a.Points(q); err != nil || len(points) != 1 || points[0].Object.Name != "web-0" {
		t.Errorf("%v %v, want web-0 alone", points, err)
	}
}

// The newest second of a source that has some is the last value; a container without one has that of its newest window.
// Seconds of another report, or of another number of containers, count for nothing.
func TestNewestSeconds(t *testing.T) {
	a := answered()
	last := func(resource, object, expression string) string {
		t.Helper()
		points, err := a.Points(metric.Query{Namespace: "shop", Resource: resource, Object: object, Expression: metric.ParseExpression(expression)})
		if err != nil || len(points) != 1 {
			return fmt.Sprint(err)
		}
		return fmt.Sprintf("%s %v", points[0].Value.Append(nil), time.Since(points[0].Time).Round(time.Second))
	}
	want := func(number uint64, values []Second, cpu, memory, node string) {
		t.Helper()
		before := a.News()
		a.Latest.SetSeconds("a", number, &Seconds{time.Now(), values})
		if got := []string{last("pods", "web-0", "cpu"), last("pods", "web-0", "memory:last"), last("nodes", "a", "cpu")}; got[0] != cpu || got[1] != memory || got[2] != node {
			t.Errorf("cpu, memory and the node's cpu are %v, want %s, %s and %s", got, cpu, memory, node)
		}
		if got := last("pods", "web-0", "cpu:mean:10s"); got != "0.12 5s" {
			t.Errorf("the window says %s", got)
		}
		if news := cpu != "0.12 5s"; news != (a.News() > before) {
			t.Errorf("there is news: %v", a.News() > before)
		}
	}
	// By name: the node, again-0, new-0 (proxy, web), web-0 (proxy, web).
	all := []Second{{3, 5}, Unknown, {1, 1}, {2, 2}, {0.25, 200}, {0.5, 1000}}
	want(2, all, "0.12 5s", "1001000 5s", "4 5s")
	want(1, all[1:], "0.12 5s", "1001000 5s", "4 5s")
	want(1, all, "0.75 0s", "1200 0s", "3 0s")
	all = slices.Clone(all)
	all[4] = Unknown
	want(1, all, "0.52 5s", "2000 5s", "3 0s")
	if got := last("pods", "new-0", "cpu"); got != "3 0s" {
		t.Errorf("the seconds of a pod whose windows are not known yet say %s", got)
	}
}

// A node that is created again under its name has the usage that was reported since, not that of the
// former machine.
func TestUsageOfAFormerNode(t *testing.T) {
	a, now := answered(), time.Now()
	created := now.Add(-time.Hour)
	a.Node = func(string) (string, time.Time, bool) { return "n", created, true }
	query := metric.Query{Resource: "nodes", Object: "a", Expression: metric.ParseExpression("memory")}
	if points, err := a.Points(query); err != nil || len(points) != 1 {
		t.Fatalf("before: %v %v", points, err)
	}
	created = now.Add(time.Second)
	if points, err := a.Points(query); err == nil {
		t.Errorf("created since the report: %v", points)
	}
	later := created.Add(time.Second)
	a.Latest.Set("a", Report{Number: 2, At: later, Records: []Record{{CPU: Usage{End: later}, Memory: Usage{End: later}}}}, later)
	if points, err := a.Points(query); err != nil || len(points) != 1 {
		t.Errorf("reported since: %v %v", points, err)
	}
}
