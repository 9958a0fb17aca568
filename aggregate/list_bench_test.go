package aggregate

import (
	"fmt"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// manySeries is a table of pods with some metrics each, spread over namespaces, and of external
// names.
func manySeries(b *testing.B, pods, metrics, namespaces, external int) *Merged {
	f := newFixture(b)
	f.w.Online()
	push := func(line string) {
		if r := f.w.Apply(sample(line)); r != metric.Applied {
			b.Fatal(r)
		}
	}
	for p := range pods {
		for m := range metrics {
			push(fmt.Sprintf("http_requests_%d:1|c|#ns:namespace-%d,pod:web-7d9f8b6c5d-%06d", m, p%namespaces, p))
		}
	}
	for e := range external {
		push(fmt.Sprintf("jobs_%07d:1|c|#ns:namespace-%d,queue:mail", e, e%namespaces))
	}
	f.w.Offline()
	f.Roll()
	return NewMerged(f.Table)
}

// reportCPU reports the processor's time per operation: the machine is others' too.
func reportCPU(b *testing.B) func() {
	before := cpuTime()
	return func() { b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N)/1e3, "cpu-ms/op") }
}

func BenchmarkListPages(b *testing.B) {
	for _, c := range []struct {
		name                                string
		pods, metrics, namespaces, external int
	}{
		{"150000 pods of 5 metrics in 100 namespaces", 150_000, 5, 100, 250_000},
		{"150000 pods of 5 metrics in a namespace", 150_000, 5, 1, 0},
	} {
		m := manySeries(b, c.pods, c.metrics, c.namespaces, c.external)
		b.Run(c.name+"/first 500 metrics", func(b *testing.B) {
			defer reportCPU(b)()
			for b.Loop() {
				m.Metrics(Part{Most: 500})
			}
		})
		b.Run(c.name+"/first 500 objects", func(b *testing.B) {
			defer reportCPU(b)()
			for b.Loop() {
				m.ObjectsWithSeries(Part{Most: 500})
			}
		})
		b.Run(c.name+"/100 series", func(b *testing.B) {
			defer reportCPU(b)()
			for b.Loop() {
				m.SomeSeries(Place{"pods", "namespace-0", "http_requests_0"}, 100)
			}
		})
	}
}
