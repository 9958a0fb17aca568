package rule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const busy = `
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: busy, namespace: shop}
spec:
  metric: busy_ratio
  let: {busy: busy_workers, total: total_workers}
  value: "busy / total"
---
apiVersion: sluice.dev/v1alpha1
kind: ClusterMetricRule
metadata: {name: per-second}
spec:
  rename: {from: "(.*)_total", to: "${1}_per_second"}
`

func ask(resource, object, name string) metric.Query {
	return metric.Query{Resource: resource, Namespace: "shop", Object: object, Expression: metric.ParseExpression(name)}
}

func wantError(t *testing.T, err error, is error, fragments ...string) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Errorf("%v; want %v", err, is)
		return
	}
	for _, fragment := range fragments {
		if !strings.Contains(err.Error(), fragment) {
			t.Errorf("%q lacks %q", err, fragment)
		}
	}
}

func TestAbsentStaysAbsent(t *testing.T) {
	p := newPushed(t, busy)
	p.push(pod("web-1"), metric.Gauge, "busy_workers", 3)
	p.push(pod("web-1"), metric.Gauge, "total_workers", 4)
	p.push(pod("web-2"), metric.Gauge, "busy_workers", 1)
	p.push(pod("web-3"), metric.Gauge, "busy_workers", 0)
	p.push(pod("web-3"), metric.Gauge, "total_workers", 0)
	p.push(pod("web-4"), metric.Gauge, "busy_workers", 2)
	p.push(pod("web-4"), metric.Gauge, "total_workers", 0)
	points, err := p.reader.Objects(ask("pods", "*", "busy_ratio"))
	if err != nil || len(points) != 1 || points[0].Object.Name != "web-1" || points[0].Value != metric.Float(0.75) {
		t.Errorf("%v %v", points, err)
	}
	_, err = p.reader.Objects(ask("pods", "web-2", "busy_ratio"))
	wantError(t, err, metric.ErrUnknown, "metricrule/busy in shop", "operand total has no value", "total_workers")
	_, err = p.reader.Objects(ask("pods", "web-3", "busy_ratio"))
	wantError(t, err, metric.ErrUnknown, "not a number with busy = 0, total = 0")
	_, err = p.reader.Objects(ask("pods", "web-4", "busy_ratio"))
	wantError(t, err, metric.ErrUnknown, "infinite with busy = 2, total = 0")
	p.push(metric.Object{}, metric.Gauge, "busy_workers", 0)
	p.push(metric.Object{}, metric.Gauge, "total_workers", 0)
	guarded := ask("", "", "busy_ratio")
	guarded.MayRead = func(string, string) error { return nil }
	_, err = p.reader.External(guarded)
	if wantError(t, err, metric.ErrUnknown, "infinite or not a number"); strings.Contains(err.Error(), "= 0") {
		t.Errorf("an author without a right to the operands reads them: %v", err)
	}
	p = newPushed(t, busy)
	_, err = p.reader.External(ask("", "", "busy_ratio"))
	if wantError(t, err, metric.ErrNotFound, "operand busy has no value"); !metric.Absent(err) {
		t.Errorf("none of the operands was pushed, and the rule is not absent: %v", err)
	}
	forbidden := ask("", "", "busy_ratio")
	forbidden.MayRead = func(expression, _ string) error {
		if expression == "total_workers" {
			return &metric.QueryError{Is: metric.ErrForbidden, Message: "denied"}
		}
		return nil
	}
	_, err = p.reader.External(forbidden)
	wantError(t, err, metric.ErrForbidden, "denied")
	p.push(external(), metric.Gauge, "total_workers", 4)
	_, err = p.reader.External(ask("", "", "busy_ratio"))
	wantError(t, err, metric.ErrUnknown, "operand busy has no value")
	_, err = p.reader.Objects(ask("pods", "web-1", "busy_ratio:rate:10s"))
	wantError(t, err, metric.ErrInvalidQuery, `must be asked for as "busy_ratio"`)
	other := ask("pods", "web-1", "busy_ratio")
	other.Namespace = "bank"
	_, err = p.reader.Objects(other)
	wantError(t, err, metric.ErrNotFound, "none was ever received")
}

// Operands are those of the asked level and namespace, with the reader's selector.
func TestLevels(t *testing.T) {
	p := newPushed(t, busy)
	for i, zone := range []string{"a", "b"} {
		p.push(external(), metric.Gauge, "busy_workers", float64(1+2*i), "zone", zone, "app", "x")
		p.push(external(), metric.Gauge, "total_workers", 4, "zone", zone, "app", "x")
	}
	namespace := metric.Object{Resource: "namespaces", Name: "shop"}
	p.push(namespace, metric.Gauge, "busy_workers", 1)
	p.push(namespace, metric.Gauge, "total_workers", 2)
	points, err := p.reader.External(ask("", "", "busy_ratio"))
	if err != nil || len(points) != 1 || points[0].Value != metric.Float(0.5) || points[0].Labels.String() != "{app=x}" {
		t.Errorf("one ratio of sums, with the labels that all share: %v %v", points, err)
	}
	q := ask("", "", "busy_ratio")
	q.MatchLabels = func(set metric.Labels) bool { v, _ := set.Get("zone"); return v == "b" }
	if points, err = p.reader.External(q); err != nil || len(points) != 1 || points[0].Value != metric.Float(0.75) {
		t.Errorf("%v %v", points, err)
	}
	q = metric.Query{Resource: "namespaces", Object: "shop", Expression: metric.ParseExpression("busy_ratio")}
	if points, err = p.reader.Objects(q); err != nil || len(points) != 1 || points[0].Value != metric.Float(0.5) {
		t.Errorf("%v %v", points, err)
	}
}

// The reader's selector and the operand's both select.
func TestSelectors(t *testing.T) {
	p := newPushed(t, issues)
	for _, zone := range []string{"a", "b"} {
		p.push(external(), metric.Gauge, "queue_depth", 12, "zone", zone)
		p.push(external(), metric.Gauge, "workers", 2, "zone", zone, "state", "busy")
		p.push(external(), metric.Gauge, "workers", 4, "zone", zone, "state", "ended")
	}
	q := ask("", "", "queue_per_worker")
	for _, zone := range []string{"", "b"} {
		q.MatchLabels = nil
		if zone != "" {
			q.MatchLabels = func(set metric.Labels) bool { v, _ := set.Get("zone"); return v == zone }
		}
		if points, err := p.reader.External(q); err != nil || len(points) != 1 || points[0].Value != metric.Float(6) {
			t.Errorf("zone %q: %v %v", zone, points, err)
		}
	}
	p.push(external(), metric.Gauge, "queue_depth", 30, "zone", "a")
	if points, err := p.reader.External(q); err != nil || points[0].Value != metric.Float(6) {
		t.Errorf("%v %v", points, err)
	}
}

func TestAPushedMetricIsNeverHidden(t *testing.T) {
	p := newPushed(t, busy)
	p.push(pod("web-1"), metric.Gauge, "busy_workers", 3)
	p.push(pod("web-1"), metric.Gauge, "total_workers", 4)
	p.push(pod("web-1"), metric.Gauge, "busy_ratio", 7)
	p.push(pod("web-1"), metric.Gauge, "hits_per_second", 9)
	p.push(pod("web-1"), metric.Counter, "hits_total", 600)
	for name, want := range map[string]float64{"busy_ratio": 7, "busy_ratio:max:10s": 7, "hits_per_second": 9} {
		points, err := p.reader.Objects(ask("pods", "web-1", name))
		if err != nil || len(points) != 1 || points[0].Value != metric.Float(want) {
			t.Errorf("%s: %v %v", name, points, err)
		}
	}
}

// A timer that is idle has no mean. It is pushed nevertheless, and no other value answers under its name.
func TestAnIdleTimerIsNotHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushed(t, busy)
		defer p.run(p.table.Run)()
		p.push(pod("web-1"), metric.Gauge, "busy_workers", 3)
		p.push(pod("web-1"), metric.Gauge, "total_workers", 4)
		p.push(pod("web-1"), metric.Timer, "busy_ratio", 7)
		p.push(pod("web-1"), metric.Timer, "hits_per_second", 9)
		p.push(pod("web-1"), metric.Counter, "hits_total", 600)
		time.Sleep(2 * time.Minute)
		for _, name := range []string{"busy_ratio", "hits_per_second"} {
			_, err := p.reader.Objects(ask("pods", "web-1", name))
			wantError(t, err, metric.ErrIdle, "nothing was observed")
		}
	})
}

func TestARenamedMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushed(t, busy)
		defer p.run(p.table.Run)()
		p.push(pod("web-1"), metric.Counter, "hits_total", 600)
		time.Sleep(20 * time.Second)
		for name, want := range map[string]float64{"hits_per_second": 30, "hits_per_second:total": 600, "hits_total": 30} {
			points, err := p.reader.Objects(ask("pods", "web-1", name))
			if err != nil || len(points) != 1 || !near(points[0].Value, want, 0.02) {
				t.Errorf("%s: %v %v", name, points, err)
			}
		}
		_, err := p.reader.Objects(ask("pods", "web-1", "misses_per_second"))
		wantError(t, err, metric.ErrNotFound, "misses_total")
	})
}

const renamedOperand = busy + `
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: work, namespace: shop}
spec:
  metric: work_left
  let: {queue: queue_depth, done: "jobs_per_second:count:1m"}
  selectors: {done: zone=a}
  value: "queue / done"
`

// An operand may have a name that a rename gives. A pushed metric of that name comes first.
func TestARenamedOperand(t *testing.T) {
	p := newPushed(t, renamedOperand)
	p.push(pod("web-1"), metric.Gauge, "queue_depth", 30)
	p.push(pod("web-1"), metric.Counter, "jobs_total", 10, "zone", "a")
	p.push(pod("web-1"), metric.Counter, "jobs_total", 50, "zone", "b")
	var asked []string
	q := ask("pods", "web-1", "work_left")
	q.MayRead = func(expression, selector string) error {
		asked = append(asked, expression+" "+selector)
		return nil
	}
	points, err := p.reader.Objects(q)
	if err != nil || len(points) != 1 || points[0].Value != metric.Float(3) {
		t.Errorf("%v %v", points, err)
	}
	if got := strings.Join(asked, ", "); got != "jobs_per_second:count:1m zone=a, jobs_total:count:1m zone=a, queue_depth " {
		t.Errorf("asked for %s", got)
	}
	set := p.rules.Set()
	var reads, names, listed []string
	for _, e := range set.Pushed(ask("pods", "web-1", "work_left")) {
		reads = append(reads, e.String())
	}
	if got := strings.Join(reads, " "); got != "work_left jobs_per_second:count:1m jobs_total:count:1m queue_depth" {
		t.Errorf("is read from %s", got)
	}
	set.NamesFor("shop", "jobs_total", func(name string) bool { names = append(names, name); return false })
	if got := strings.Join(names, " "); got != "jobs_per_second work_left" {
		t.Errorf("jobs_total is read by %s", got)
	}
	for _, discovered := range p.reader.Listed(100, nil) {
		listed = append(listed, discovered.Name)
	}
	if got := strings.Join(listed, " "); got != "jobs_total queue_depth work_left jobs_per_second" {
		t.Errorf("listed: %s", got)
	}
	p.push(pod("web-1"), metric.Counter, "jobs_per_second", 5, "zone", "a")
	if points, err := p.reader.Objects(ask("pods", "web-1", "work_left")); err != nil || points[0].Value != metric.Float(6) {
		t.Errorf("%v %v", points, err)
	}
	_, err = p.reader.Objects(ask("pods", "web-2", "work_left"))
	wantError(t, err, metric.ErrNotFound, "operand done has no value", "jobs_total")
}

// A reader needs the right to each operand, as the rule spells it.
func TestRightsToOperands(t *testing.T) {
	p := newPushed(t, busy)
	p.push(pod("web-1"), metric.Gauge, "busy_workers", 3)
	p.push(pod("web-1"), metric.Gauge, "total_workers", 4)
	p.push(pod("web-1"), metric.Counter, "hits_total", 600)
	forbidden := errors.New("forbidden")
	var asked []string
	for _, name := range []string{"busy_ratio", "hits_per_second:count", "busy_workers"} {
		q := ask("pods", "web-1", name)
		q.MayRead = func(expression, _ string) error {
			asked = append(asked, expression)
			if expression == "total_workers" {
				return forbidden
			}
			return nil
		}
		if _, err := p.reader.Objects(q); (name == "busy_ratio") != errors.Is(err, forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := strings.Join(asked, " "); got != "busy_workers total_workers hits_total:count" {
		t.Errorf("asked for %s", got)
	}
}

func TestListed(t *testing.T) {
	p := newPushed(t, busy)
	p.push(pod("web-1"), metric.Gauge, "busy_workers", 3)
	p.push(pod("web-1"), metric.Gauge, "total_workers", 4)
	p.push(external(), metric.Gauge, "total_workers", 4)
	p.push(external(), metric.Counter, "hits_total", 4)
	var got []string
	for _, discovered := range p.reader.Listed(100, nil) {
		got = append(got, discovered.Resource+"/"+discovered.Name)
	}
	want := "/hits_total /total_workers pods/busy_workers pods/total_workers pods/busy_ratio /hits_per_second"
	if strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
}

// What rules make of a hidden metric is hidden, too: its name, and that it exists.
func TestRulesListNothingThatIsHidden(t *testing.T) {
	for hidden, want := range map[bool]string{false: "secret.keys watcher x_secret.keys", true: ""} {
		p := newPushed(t, `
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: watcher, namespace: shop}
spec: {metric: watcher, let: {x: secret.keys}, value: x}
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: x, namespace: shop}
spec: {rename: {from: "(secret.*)", to: "x_$1"}}
`)
		p.push(external(), metric.Gauge, "secret.keys", 3)
		var got []string
		for _, discovered := range p.reader.Listed(100, func(d metric.Discovered) bool { return hidden && d.Name == "secret.keys" }) {
			got = append(got, discovered.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("hidden %v: %q", hidden, got)
		}
	}
}

// The last answer is remembered for the status of the rule.
func TestLast(t *testing.T) {
	p := newPushed(t, busy)
	r := p.rules.Set().Rule("shop", "busy_ratio")
	p.push(pod("web-1"), metric.Gauge, "busy_workers", 3)
	p.push(pod("web-1"), metric.Gauge, "total_workers", 4)
	if r.Last() != nil {
		t.Error("a value before any answer")
	}
	if _, err := p.reader.Objects(ask("pods", "web-1", "busy_ratio")); err != nil {
		t.Fatal(err)
	}
	if last := r.Last(); last == nil || last.Number != metric.Float(0.75) || last.Object.Name != "web-1" {
		t.Errorf("%+v", last)
	}
	if p.rules.Set().EndNamespace("bank"); r.Last() == nil {
		t.Error("the value ended with another namespace")
	}
	if p.rules.Set().EndNamespace("shop"); r.Last() != nil {
		t.Error("the next shop has the value of the former one")
	}
}

// A read that no rule touches allocates what it does without rules.
func TestAReadWithoutARuleAllocatesNothingMore(t *testing.T) {
	p := newPushed(t, issues)
	p.push(pod("web-1"), metric.Gauge, "depth", 3)
	allocated := func() float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := p.reader.Objects(ask("pods", "web-1", "depth")); err != nil {
				t.Error(err)
			}
		})
	}
	with := allocated()
	p.rules.Replace(nil)
	if without := allocated(); with > without {
		t.Errorf("%v allocations with rules, %v without", with, without)
	}
}

func BenchmarkRatio(b *testing.B) {
	for _, pods := range []int{1, 1000} {
		b.Run(fmt.Sprint("pods=", pods), func(b *testing.B) {
			p := newPushed(b, busy)
			for i := range pods {
				p.push(pod(fmt.Sprintf("web-%05d", i)), metric.Gauge, "busy_workers", 3)
				p.push(pod(fmt.Sprintf("web-%05d", i)), metric.Gauge, "total_workers", 4)
			}
			q := ask("pods", "*", "busy_ratio")
			b.ReportAllocs()
			for b.Loop() {
				if points, err := p.reader.Objects(q); err != nil || len(points) != pods {
					b.Fatal(err, len(points))
				}
			}
		})
	}
}
