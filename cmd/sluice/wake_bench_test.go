package main

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// A look at a thousand autoscalers at zero, which happens fifty times a second. The gauges are 0 and
// unchanged.
func BenchmarkLookAtZero(b *testing.B) {
	const many = 1000
	table := aggregate.New(aggregate.DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object = metric.Object{Namespace: "shop"}
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	writer := table.NewWriter()
	merged, rules := aggregate.NewMerged(table), &rule.Current{}
	reader := adapter.NewAutoscalerReader(adapter.Parts{Source: answer.New(answer.Parts{Merged: merged, Rules: rules})})
	source := zeroSource{Watches: answer.NewWatches(merged, rules), reader: reader, external: true}
	changes := 0
	for i := range many {
		name := fmt.Sprint("jobs", i)
		if reason := writer.Apply(&metric.Sample{Name: []byte(name), Kind: metric.Gauge}); reason != metric.Applied {
			b.Fatal(reason)
		}
		asked, err := source.Ask(&inspect.Autoscaler{Namespace: "shop"}, &inspect.AutoscalerMetric{Source: "External", Name: name})
		if err != nil {
			b.Fatal(err)
		}
		asked.Watch(func() { changes++ })
		if _, err := asked.Value(); err != nil {
			b.Fatal(err)
		}
	}
	table.Roll()
	source.Look()
	before := changes
	b.ResetTimer()
	for b.Loop() {
		source.Look()
	}
	if before < many || changes != before {
		b.Errorf("%d changes at first and %d later, want %d or more, and none", before, changes-before, many)
	}
}
