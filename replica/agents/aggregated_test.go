package agents

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agent"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// What clients aggregate themselves (running totals, histograms, the end of a series) comes to the table as it came to the agent: each by itself,
// in its order.
func TestWhatClientsAggregate(t *testing.T) {
	t.Parallel() // it waits for acknowledgements
	table, seen := newTable(), []string{}
	table.durable = time.Now().Add(time.Hour)
	parts := table.parts()
	parts.NewApplier = func() Applier {
		return watcher{writer{table}, func(s *metric.Sample) { seen = append(seen, described(s)) }}
	}
	s := serve(t, "127.0.0.1:0", parts)
	cfg := agent.DefaultConfig()
	cfg.Server, cfg.Node, cfg.Insecure = s.Addr().String(), "a", true
	collector := agent.NewCollector(cfg)
	link, err := agent.NewLink(cfg, "test", collector, slog.New(slog.DiscardHandler))
	must(t, err)
	nan, queue := math.NaN(), []metric.Label{{Key: "queue", Value: "mail"}}
	sample := func(kind metric.Kind, op metric.Op, value float64) metric.Sample {
		s := metric.Sample{Name: []byte("m"), Kind: kind, Op: op, Dated: 2e18, Fields: queue}
		s.SetFloat(value)
		return s
	}
	total := sample(metric.Counter, metric.Accumulate, 1<<53+1)
	total.Whole, total.Started, total.Late = 1<<53+1, 1e18, true
	grown := sample(metric.Counter, metric.Accumulate, 12345678.25)
	buckets := sample(metric.Timer, metric.Accumulate, 0)
	buckets.Started = 1e18
	buckets.Histogram = &metric.Histogram{Bounds: []float64{0.1, 1}, Counts: []float64{1, 2, 3}, Count: 6, Sum: 7.5, Min: nan, Max: 3}
	summary := sample(metric.Timer, metric.Merge, 0)
	summary.Histogram = &metric.Histogram{Count: 2, Sum: nan, Min: nan, Max: nan, Quantiles: []metric.Quantile{{Q: 0.5, Value: nan}, {Q: 1, Value: 4}}}
	all := []metric.Sample{total, total, grown, buckets, summary, summary, sample(metric.Gauge, metric.MarkStale, 0), sample(metric.Gauge, metric.Assign, 0.5)}
	applier := collector.NewApplier()
	var want []string
	for i := range all {
		want = append(want, described(&all[i]))
		if reason := applier.Apply(&all[i]); reason != metric.Applied {
			t.Fatal(reason)
		}
	}
	clear(buckets.Histogram.Counts) // its owner uses it again
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := link.Run(ctx); err != nil { // it tells all before it ends
		t.Fatal(err)
	}
	s.end()
	slices.Sort(seen) // series are told one after the other
	slices.Sort(want)
	if !slices.Equal(seen, want) {
		t.Errorf("applied\n%q\nwant\n%q", seen, want)
	}
	if got := table.counted(); got != "applied 8" {
		t.Error(got)
	}
}

// described is all of a sample that a client may have said.
func described(s *metric.Sample) string {
	text := fmt.Sprint(s.Kind, s.Op, s.Whole, s.Fraction, s.Started, s.Dated, s.Late, s.Fields)
	if s.Histogram != nil {
		text += fmt.Sprint(*s.Histogram)
	}
	return text
}

// A change that a server does not know is rejected, and so is a running total that says it counts at a date, without one.
func TestUnknownChanges(t *testing.T) {
	table := durableTable()
	var late bool
	parts := table.parts()
	parts.NewApplier = func() Applier { return watcher{writer{table}, func(s *metric.Sample) { late = late || s.Late }} }
	s := serve(t, "127.0.0.1:0", parts)
	c, _ := s.hello(7)
	c.frame(1, &agentwire.Change{Series: 0, Samples: 1, Op: 99, Whole: 5},
		&agentwire.Change{Series: 1, Samples: 1, Op: agentwire.Op_ACCUMULATE, Whole: 5, Late: true})
	c.acked(1)
	if got := table.counted(); got != "applied 1, malformed 1" || table.sum("c0") != 0 || late {
		t.Errorf("%s, %v, late: %v", got, table.sum("c0"), late)
	}
}
