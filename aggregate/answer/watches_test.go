package answer

import (
	"log/slog"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/aggregate/rule/ruletest"
	"github.com/sluice-metrics/sluice/metric"
)

// An answer is watched by the metric itself, what it is computed of, and the pods that may be rolled up.
func TestWatchesOfAnAnswer(t *testing.T) {
	documents, err := rule.Parse("rules", []byte(ruletest.Busy))
	must(t, err)
	var current rule.Current
	current.Replace(rule.NewSet(documents, nil, nil))
	must(t, current.Set().Faults())
	table := aggregate.New(aggregate.DefaultConfig(), nil, slog.New(slog.DiscardHandler))
	watches := NewWatches(aggregate.NewMerged(table), &current, nil)
	for name, want := range map[string]int{"busy_ratio": 3, "busy_workers": 1, "hits_per_second": 2} {
		for resource, each := range map[string]int{"": 1, "pods": 1, "deployments.apps": 2} {
			q := metric.Query{Namespace: "shop", Resource: resource, Object: "web", Expression: metric.ParseExpression(name)}
			watch := watches.Watch(func() (metric.Query, error) { return q, nil }, func() {})
			watch.Follow()
			if got := len(watch.metrics); got != want*each {
				t.Errorf("%s of %q has %d watches, want %d", name, resource, got, want*each)
			}
			watch.End()
		}
	}
}
