package scrape

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
)

// page is one with a counter, a gauge, a histogram and a summary. It fails while it is broken.
type countedPage struct {
	total  atomic.Int64
	broken atomic.Bool
}

func (p *countedPage) ServeHTTP(to http.ResponseWriter, _ *http.Request) {
	if p.broken.Load() {
		to.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	n := p.total.Load()
	_, _ = fmt.Fprintf(to, `# TYPE requests_total counter
requests_total{code="200"} %d
# TYPE vllm:waiting gauge
vllm:waiting 7 1600000000000
# TYPE latency histogram
latency_bucket{le="1"} %d
latency_bucket{le="+Inf"} %d
latency_sum %d
latency_count %d
# TYPE pause summary
pause{quantile="0.5"} 3
pause_sum %d
pause_count %d
`, n, n, n, n, n, n, n)
}

// Series of a page in the real table: totals count by their growth, values keep their age while the target
// fails, and end after three intervals, at least 15 s; never before, and never as 0.
func TestValuesOfATarget(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 10 * time.Second} {
		t.Run(interval.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { valuesOfATarget(t, interval) }) })
	}
}

// tabled is a world with a real table.
type tabled struct {
	*world
	merged *aggregate.Merged
}

func newTabled(t *testing.T) tabled {
	t.Helper()
	config := aggregate.DefaultConfig()
	config.Windows = append(config.Windows, 5*time.Minute)
	table := aggregate.New(config, func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object, d.Labels, d.ObjectLifetime = *s.Object, metric.SortLabels(s.AppendLabels(nil)), true
		return metric.Applied
	}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	go func() { _ = table.Run(t.Context()) }()
	w := tabled{newWorld(t), aggregate.NewMerged(table)}
	applier := table.NewWriter()
	applier.Offline()
	w.parts.Applier, w.table.applier = applier, applier
	return w
}

// read reads a metric of the pod web.
func (w tabled) read(expression string) (metric.Point, error) {
	points, err := w.merged.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "web", Expression: metric.ParseExpression(expression)})
	if err != nil {
		return metric.Point{}, err
	}
	return points[0], nil
}

func (w tabled) want(expression, value string) {
	w.t.Helper()
	if p, err := w.read(expression); err != nil || string(p.Value.Append(nil)) != value {
		w.t.Errorf("%s is %s, %v; want %s", expression, p.Value.Append(nil), err, value)
	}
}

func valuesOfATarget(t *testing.T, interval time.Duration) {
	w := newTabled(t)
	read, want := w.read, w.want
	page := &countedPage{}
	page.total.Store(1_000_000)
	w.pod("web", "10.0.0.1", page, metric.Endpoint{Port: 1, Interval: interval, Names: []string{"requests_total", "vllm:waiting", "latency", "pause"}})
	w.run()
	time.Sleep(2*interval + time.Millisecond)
	synctest.Wait()
	want("requests_total:total", "1000000")
	want("requests_total:count:1m", "0") // the first total is the baseline
	want("vllm:waiting:max:10s", "7")
	for range 6 {
		page.total.Add(30)
		time.Sleep(interval)
	}
	synctest.Wait()
	want("requests_total:total", "1000180")
	want("requests_total:count:5m", "180")
	want("latency:count:5m", "180")
	want("pause:p50", "3")
	page.total.Store(20) // it restarted
	time.Sleep(interval)
	synctest.Wait()
	want("requests_total:total", "20")
	want("requests_total:count:5m", "200")

	time.Sleep(20 * interval) // totals that stand still live on
	want("requests_total:total", "20")

	// A scrape that fails moves nothing.
	page.broken.Store(true)
	time.Sleep(interval)
	page.broken.Store(false)
	time.Sleep(interval)
	want("vllm:waiting:last", "7")
	synctest.Wait()
	last := w.Targets("")[0].LastSuccess
	page.broken.Store(true)
	lives := max(3*interval, 15*time.Second)
	for time.Since(last) < lives-100*time.Millisecond {
		for expression, value := range map[string]string{"vllm:waiting:max:10s": "7", "vllm:waiting:last": "7", "requests_total:total": "20"} {
			want(expression, value)
		}
		if p, _ := read("vllm:waiting:last"); p.Time.Sub(last).Abs() > time.Second {
			t.Fatalf("the value is of %v, want %v: its true age", p.Time, last)
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(2 * time.Second) // a gauge's arrival is known to a tick
	for _, expression := range []string{"vllm:waiting:max:10s", "vllm:waiting:last", "requests_total:total", "requests_total:rate:10s", "latency:p95:1m", "pause:p50"} {
		if p, err := read(expression); !errors.Is(err, metric.ErrNotFound) {
			t.Errorf("%s is %s, %v; want no value", expression, p.Value.Append(nil), err)
		}
	}
}
