package answer

import (
	"log/slog"
	"strings"
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

// Of a changed rule, the watches are told for which it holds: each change has them read anew, and who may write rules in one
// namespace may change them all the time.
func TestRulesOfANamespaceConcernNoOther(t *testing.T) {
	const ofBank, ofCluster = `apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: renamed, namespace: bank}
spec:
  rename: {from: "(.*)_old", to: "${1}"}
---
`, `---
apiVersion: sluice.dev/v1alpha1
kind: ClusterMetricRule
metadata: {name: whole}
spec:
  metric: whole
  let: {part: part}
  value: "part * 2.0"
`
	var current rule.Current
	replace := func(text string) {
		documents, err := rule.Parse("rules", []byte(text))
		must(t, err)
		current.Replace(rule.NewSet(documents, nil, current.Set()))
		must(t, current.Set().Faults())
	}
	replace(ruletest.Busy)
	table := aggregate.New(aggregate.DefaultConfig(), nil, slog.New(slog.DiscardHandler))
	watches := NewWatches(aggregate.NewMerged(table), &current, nil)
	told := map[string]int{}
	for _, namespace := range []string{"shop", "bank"} {
		q := metric.Query{Namespace: namespace, Expression: metric.ParseExpression("busy_ratio")}
		watches.Watch(func() (metric.Query, error) { return q, nil }, func() { told[namespace]++ }).Follow()
	}
	_, withoutShop, _ := strings.Cut(ruletest.Busy, "---\n")
	for i, step := range []struct {
		rules      string
		shop, bank int
	}{
		{ruletest.Busy, 0, 0},
		{ofBank + ruletest.Busy, 0, 1},
		{ruletest.Busy + ofCluster, 1, 1},
		{withoutShop + ofCluster, 1, 0},
		{"", 1, 1},
	} {
		clear(told)
		replace(step.rules)
		if watches.Look(); told["shop"] != step.shop || told["bank"] != step.bank {
			t.Errorf("change %d: told %v, want %d of shop and %d of bank", i, told, step.shop, step.bank)
		}
		for watch := range watches.all {
			if kept := watch.set == current.Set(); kept != (told[watch.namespace] == 0) {
				t.Errorf("change %d: the metrics of %s are found anew although its rules are as before, or not though they changed", i, watch.namespace)
			}
			watch.Follow()
		}
	}
}
