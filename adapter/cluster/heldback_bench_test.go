package cluster

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	quantity "k8s.io/apimachinery/pkg/api/resource"
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

// factsFor reads what cmd/sluice reads for explain.HeldBack, and leaves some pods without a value.
func factsFor(a *inspect.Autoscaler, r *adapter.AutoscalerReader, targets *Targets, without int) *explain.Facts {
	f := &explain.Facts{Now: time.Now(), Autoscaler: *a, Readings: make([]explain.Reading, len(a.Metrics))}
	for _, one := range targets.PodStates(a.Namespace, a.TargetKind, a.TargetName) {
		f.Pods = append(f.Pods, explain.Pod{Name: one.Name, Phase: "Running", Ready: true})
	}
	f.Scale = &explain.Scale{SpecReplicas: int32(len(f.Pods)), StatusReplicas: int32(len(f.Pods))}
	f.Autoscaler.MaxReplicas = 10_000
	f.Autoscaler.Metrics = slices.Clone(a.Metrics)
	for i := range a.Metrics {
		f.Autoscaler.Metrics[i].TargetType, f.Autoscaler.Metrics[i].Target = "AverageValue", "10"
		f.Readings[i].Asked = true
		_, _ = r.Each(a, &a.Metrics[i], targets, func(one *metric.Point) {
			value := explain.Value{Object: one.Object.Name, Text: adapter.Quantity(one.Value), Time: one.Time}
			if q, err := quantity.ParseQuantity(value.Text); err == nil {
				value.Milli = q.MilliValue()
			}
			f.Readings[i].Values = append(f.Readings[i].Values, value)
		})
		f.Readings[i].Values = f.Readings[i].Values[without:]
	}
	return f
}
