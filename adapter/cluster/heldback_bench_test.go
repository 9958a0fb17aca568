package cluster

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// BenchmarkHeldBack is what is added to a round if a tenth of the pods of every autoscaler has no
// value, and 1,024 rejections are remembered: cmd/sluice reads the metrics again and computes the
// decision with other values.
func BenchmarkHeldBack(b *testing.B) {
	for _, c := range []struct{ autoscalers, pods int }{{300, 10}, {300, 100}} {
		b.Run(fmt.Sprintf("%dx%d", c.autoscalers, c.pods), func(b *testing.B) {
			v, table, tracker := largeCluster(b, c.autoscalers, c.pods)
			r := adapter.NewAutoscalerReader(adapter.Parts{Cluster: v, Source: readerOf(v, table, tracker)})
			rejections := map[string][]inspect.Rejection{}
			for i := range 1024 {
				namespace := fmt.Sprintf("team-%d", i%3)
				rejections[namespace] = append(rejections[namespace], inspect.Rejection{Namespace: namespace, Metric: "errors",
					Sender: fmt.Sprintf("service-%d-1-%05d", i%300, i%c.pods), Reason: "limit", Message: "over"})
			}
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				targets := v.Targets()
				for _, a := range v.Autoscalers("") {
					f := factsFor(a, r, targets, c.pods/10)
					f.Rejections = rejections[a.Namespace]
					if held := explain.HeldBack(f); held[0].Why == "" || len(held[0].Without) == 0 {
						b.Fatal(held)
					}
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			runtime.KeepAlive(table)
		})
	}
}

// factsFor is AutoscalerReader.Facts with a decision to take, and leaves some pods without a value.
func factsFor(a *inspect.Autoscaler, r *adapter.AutoscalerReader, targets *Targets, without int) *explain.Facts {
	asked := *a
	asked.MaxReplicas, asked.Metrics = 10_000, slices.Clone(a.Metrics)
	for i := range asked.Metrics {
		m := &asked.Metrics[i]
		m.Asked, m.TargetType, m.Target = true, "AverageValue", "10"
	}
	f := r.Facts(&asked, targets)
	for i := range f.Readings {
		f.Readings[i].Values = f.Readings[i].Values[without:]
	}
	return f
}
