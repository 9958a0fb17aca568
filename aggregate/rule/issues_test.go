package rule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// raw is a sample as it was pushed.
type raw struct {
	object metric.Object
	name   string
	kind   metric.Kind
	labels map[string]string
	value  float64
	at     time.Time
}

// pushed is a real table with everything that was pushed to it.
type pushed struct {
	t       testing.TB
	table   *aggregate.Table
	merged  *aggregate.Merged
	writer  *aggregate.Writer
	rules   rule.Current
	reader  *answer.Reader
	samples []raw
}

func newPushed(t testing.TB, file string) *pushed {
	table := aggregate.New(aggregate.DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object, d.Labels = *s.Object, metric.SortLabels(s.AppendLabels(d.Labels[:0]))
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	p := &pushed{t: t, table: table, merged: aggregate.NewMerged(table), writer: table.NewWriter()}
	p.reader = answer.New(answer.Parts{Merged: p.merged, Rules: &p.rules})
	p.setRules(file)
	return p
}

// run runs the table until the test ends.
func (p *pushed) run(table func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = table(ctx) }()
	return func() { cancel(); <-done }
}

func (p *pushed) setRules(file string) {
	documents, err := rule.Parse("rules", []byte(file))
	must(p.t, err)
	set := rule.NewSet(documents, parseSelector, p.rules.Set())
	must(p.t, set.Faults())
	p.rules.Replace(set)
}

// parseSelector knows "key=value" and "key!=value".
func parseSelector(text string) (func(metric.Labels) bool, error) {
	if key, value, ok := strings.Cut(text, "!="); ok {
		return func(set metric.Labels) bool { v, _ := set.Get(key); return v != value }, nil
	}
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return nil, errors.New("must be key=value")
	}
	return func(set metric.Labels) bool { v, is := set.Get(key); return is && v == value }, nil
}

func pod(name string) metric.Object {
	return metric.Object{Resource: "pods", Namespace: "shop", Name: name}
}

func external() metric.Object { return metric.Object{Namespace: "shop"} }

func (p *pushed) push(o metric.Object, kind metric.Kind, name string, value float64, labels ...string) {
	one := raw{o, name, kind, map[string]string{}, value, time.Now()}
	s := &metric.Sample{Name: []byte(name), Kind: kind, Op: metric.Assign, Object: &o}
	if kind == metric.Counter {
		s.Op = metric.Add
	}
	for i := 0; i+1 < len(labels); i += 2 {
		one.labels[labels[i]] = labels[i+1]
		s.Fields = append(s.Fields, metric.Label{Key: labels[i], Value: labels[i+1]})
	}
	s.SetFloat(value)
	p.writer.Online()
	if r := p.writer.Apply(s); r != metric.Applied {
		p.t.Fatalf("%s: %s", name, r)
	}
	p.writer.Offline()
	p.samples = append(p.samples, one)
}

// brute computes an operand from the raw samples: the sum of the last values of gauges, and of all
// increments of counters, of the objects and label sets that pick picks.
func (p *pushed) brute(name string, pick func(raw) bool) (sum float64, found bool) {
	last, total := map[string]raw{}, map[string]float64{}
	for _, s := range p.samples {
		if s.name != name || !pick(s) {
			continue
		}
		series := fmt.Sprint(s.object, s.labels)
		last[series] = s
		total[series] += s.value
	}
	for series, s := range last {
		found = true
		if s.kind == metric.Gauge {
			sum += s.value
		} else {
			sum += total[series]
		}
	}
	return sum, found
}

// bruteRate is brute over the time since the first sample, which is at least ten seconds and at most
// a minute.
func (p *pushed) bruteRate(name string, pick func(raw) bool) (rate float64, found bool) {
	var age time.Duration
	for _, s := range p.samples {
		if s.name == name && pick(s) {
			age = max(age, time.Since(s.at))
		}
	}
	sum, found := p.brute(name, pick)
	return sum / min(max(age, 10*time.Second), time.Minute).Seconds(), found
}

// issues are rules that users of prometheus-adapter asked for: busy over maximum threads, a queue
// over its workers, a queue over the rate of the work, and the apdex.
const issues = `
apiVersion: sluice.dev/v1alpha1
kind: ClusterMetricRule
metadata: {name: threads}
spec:
  metric: threads_busy_ratio
  let: {busy: threads_busy, most: threads_max}
  value: "busy / most"
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: queue-per-worker, namespace: shop}
spec:
  metric: queue_per_worker
  let: {queue: queue_depth, workers: workers}
  selectors: {workers: "state!=ended"}
  value: "workers > 0.0 ? queue / workers : queue"
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: seconds-of-work, namespace: shop}
spec:
  metric: seconds_of_work
  let: {queue: queue_depth, done: "jobs_done:rate:1m"}
  value: "queue / math.greatest(done, 0.001)"
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: apdex, namespace: shop}
spec:
  metric: apdex
  let: {satisfied: "requests:count:1m", tolerating: "requests:count:1m", all: "requests:count:1m"}
  selectors: {satisfied: zone=satisfied, tolerating: zone=tolerating}
  value: "all > 0.0 ? (satisfied + tolerating / 2.0) / all : 1.0"
`

func near(got metric.Number, want, tolerance float64) bool {
	return math.Abs(got.Float64()-want) <= tolerance*math.Abs(want)
}

func TestRulesAgainstRawSamples(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { againstRawSamples(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func againstRawSamples(t *testing.T, random *rand.Rand) {
	p := newPushed(t, issues)
	defer p.run(p.table.Run)()
	pods := make([]string, 1+random.IntN(8))
	for i := range pods {
		pods[i] = fmt.Sprintf("web-%d", i)
	}
	of := func(o metric.Object) func(raw) bool { return func(s raw) bool { return s.object == o } }
	for step := range 400 {
		for range 3 * len(pods) { // so often that single pushes don't matter; the third queue begins late
			p.push(pod(pods[random.IntN(len(pods))]), metric.Counter, "jobs_done", float64(random.IntN(40)), "queue", fmt.Sprint("q", random.IntN(2+step/300)))
			p.push(external(), metric.Counter, "jobs_done", 1, "queue", fmt.Sprint("q", random.IntN(2+step/300)))
		}
		o := pod(pods[random.IntN(len(pods))])
		if random.IntN(2) == 0 {
			o = external()
		}
		queue := fmt.Sprint("q", random.IntN(3))
		switch random.IntN(5) {
		case 0:
			p.push(o, metric.Gauge, "threads_busy", float64(random.IntN(100)), "pool", queue)
		case 1:
			p.push(o, metric.Gauge, "threads_max", float64(random.IntN(50)), "pool", queue)
		case 2:
			p.push(o, metric.Gauge, "queue_depth", float64(random.IntN(1000))/8, "queue", queue)
		case 3:
			p.push(o, metric.Gauge, "workers", float64(random.IntN(9)), "state", []string{"ended", "busy", "idle"}[random.IntN(3)])
		default:
			p.push(o, metric.Counter, "requests", 1, "zone", []string{"satisfied", "tolerating", "frustrated"}[random.IntN(3)])
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
	}
	for _, o := range append([]metric.Object{external()}, objects(pods)...) {
		p.compare(o, "threads_busy_ratio", 1e-9, func() (float64, bool) {
			busy, a := p.brute("threads_busy", of(o))
			most, b := p.brute("threads_max", of(o))
			return busy / most, a && b
		})
		p.compare(o, "queue_per_worker", 1e-9, func() (float64, bool) {
			queue, a := p.brute("queue_depth", of(o))
			workers, b := p.brute("workers", func(s raw) bool { return s.object == o && s.labels["state"] != "ended" })
			if workers == 0 {
				return queue, a && b
			}
			return queue / workers, a && b
		})
		p.compare(o, "seconds_of_work", 0.05, func() (float64, bool) { // an age is known to a second
			queue, a := p.brute("queue_depth", of(o))
			done, b := p.bruteRate("jobs_done", of(o))
			return queue / max(done, 0.001), a && b
		})
		p.compare(o, "apdex", 1e-9, func() (float64, bool) {
			zone := func(name string) (float64, bool) {
				return p.brute("requests", func(s raw) bool { return s.object == o && s.labels["zone"] == name })
			}
			satisfied, a := zone("satisfied")
			tolerating, b := zone("tolerating")
			all, _ := p.brute("requests", of(o))
			return (satisfied + tolerating/2) / all, a && b
		})
	}
}

func objects(pods []string) (all []metric.Object) {
	for _, name := range pods {
		all = append(all, pod(name))
	}
	return all
}

// compare reads a metric of one object, alone and among all objects, and compares it with the truth.
func (p *pushed) compare(o metric.Object, name string, tolerance float64, truth func() (float64, bool)) {
	p.t.Helper()
	want, found := truth()
	found = found && !math.IsNaN(want) && !math.IsInf(want, 0)
	read := func(of string) ([]metric.Point, error) {
		q := metric.Query{Resource: o.Resource, Namespace: "shop", Object: of, Expression: metric.ParseExpression(name)}
		if o.External() {
			return p.reader.External(q)
		}
		return p.reader.Objects(q)
	}
	points, err := read(o.Name)
	if !found {
		if !errors.Is(err, metric.ErrNotFound) {
			p.t.Errorf("%s of %v: %v %v, want not found", name, o, points, err)
		}
		return
	}
	if err != nil || len(points) != 1 || !near(points[0].Value, want, tolerance) {
		p.t.Errorf("%s of %v: %v %v, want %g", name, o, points, err, want)
		return
	}
	if o.External() {
		return
	}
	all, err := read("*")
	must(p.t, err)
	for _, point := range all {
		if point.Object.Name == o.Name && point.Value == points[0].Value {
			return
		}
	}
	p.t.Errorf("%s of %v is %v alone, and among all: %v", name, o, points[0].Value, all)
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
