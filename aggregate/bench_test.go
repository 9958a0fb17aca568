package aggregate

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// samplesOf makes n series' samples in a random order, as a receiver would hand them over.
func samplesOf(n int, kind string) []*metric.Sample {
	samples := make([]*metric.Sample, n)
	for i := range samples {
		samples[i] = sample(fmt.Sprintf("http.requests.m%d:%d|%s|#ns:ns%d,pod:web-%d,code:%d", i%10, i%100+1, kind, i%7, i/10%5000, 200+i/50000))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	return samples
}

// BenchmarkRoll is what it costs, a changed series, to note the values of 750,000 counters of which all changed, or a
// tenth, and to encode them for the store: as rolled before, and rolled with it.
func BenchmarkRoll(b *testing.B) {
	b.Run("all", func(b *testing.B) { benchmarkRoll(b, 1) })
	b.Run("tenth", func(b *testing.B) { benchmarkRoll(b, 10) })
}

func benchmarkRoll(b *testing.B, oneOf int) {
	const series = 750_000
	table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	for _, s := range samplesOf(series, "c") {
		w.Apply(s)
	}
	w.Offline()
	change := func() {
		for i := range table.blocks.made.Load() {
			one := table.blocks.at[i].Load()
			for place := range uint32(kind.BlockSeries) {
				if c := &one.page.cells[place]; c.State.Load()&kind.Live != 0 && rand.IntN(oneOf) == 0 {
					c.Value.Add(3)
					one.page.dirty.Mark(place)
				}
			}
		}
		table.Clock.Offset += time.Second
	}
	var delta []byte
	save := func() (bytes int) {
		for block := range table.Blocks() {
			delta = table.AppendDelta(delta[:0], block)
			bytes += len(delta)
		}
		return bytes
	}
	for range 8 {
		change()
		save()
	}
	each := func(b *testing.B, run func()) {
		for b.Loop() {
			b.StopTimer()
			change()
			b.StartTimer()
			run()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series/oneOf), "ns/series")
	}
	b.Run("roll", func(b *testing.B) { each(b, table.Roll) })
	b.Run("save", func(b *testing.B) {
		bytes := 0
		each(b, func() {
			b.StopTimer()
			table.Roll()
			b.StartTimer()
			bytes = save()
		})
		b.ReportMetric(float64(bytes*oneOf)/series, "B/series")
	})
	b.Run("both", func(b *testing.B) { each(b, func() { save() }) })
}

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

// cpuTime is the processor time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
