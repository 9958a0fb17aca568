package aggregate

import (
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// BenchmarkGauges measures what a gauge costs a replica and a table alone: a sample, and a record
// of a delta if all of 75,000 gauges changed.
func BenchmarkGauges(b *testing.B) {
	for name, replicated := range map[string]bool{"alone": false, "replica": true} {
		c := DefaultConfig()
		c.Replicated = replicated
		table := New(c, describeByPod, quiet())
		w := table.NewWriter()
		samples := samplesOf(75_000, "g")
		apply := func(i int) {
			s := samples[i%len(samples)]
			s.Whole++
			if r := w.Apply(s); r != metric.Applied {
				b.Fatal(r)
			}
			if i%32 == 0 {
				w.Quiesce()
			}
		}
		b.Run(name+"/sample", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				apply(i)
			}
		})
		b.Run(name+"/delta", func(b *testing.B) {
			var delta []byte
			bytes, spent := 0, time.Duration(0)
			for b.Loop() {
				for i := range samples {
					apply(i)
				}
				table.Clock.Offset += time.Second
				begun := time.Now()
				bytes = 0
				for block := range table.Blocks() {
					delta = table.AppendDelta(delta[:0], block)
					bytes += len(delta)
				}
				spent += time.Since(begun)
			}
			b.ReportMetric(float64(bytes)/float64(len(samples)), "B/series")
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N*len(samples)), "ns/series")
		})
		w.Close()
	}
}
