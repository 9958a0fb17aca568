package aggregate

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
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

func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name, kind string
		series     int
	}{
		{"counter/10k", "c", 10_000}, {"counter/750k", "c", 750_000}, {"gauge/10k", "g", 10_000}, {"timer/10k", "ms", 10_000}, {"set/10k", "s", 10_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
			w := table.NewWriter()
			samples := samplesOf(c.series, c.kind)
			for _, s := range samples {
				w.Apply(s)
			}
			if table.Series() != c.series {
				b.Fatalf("%d series, want %d", table.Series(), c.series)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if r := w.Apply(samples[i%len(samples)]); r != metric.Applied {
					b.Fatal(r)
				}
				if i%32 == 0 {
					w.Quiesce()
				}
			}
		})
	}
}

func BenchmarkCreate(b *testing.B) {
	samples := samplesOf(750_000, "c")
	for b.Loop() {
		table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
		w := table.NewWriter()
		for _, s := range samples {
			w.Apply(s)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(samples)), "ns/series")
}

func BenchmarkObjects(b *testing.B) {
	table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	for i := range 1000 {
		w.Apply(sample(fmt.Sprintf("hits:1|c|#pod:p%d,ns:ns", i)))
	}
	w.Offline()
	for b.Loop() {
		points, err := table.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("hits")})
		if err != nil || len(points) != 1000 {
			b.Fatal(len(points), err)
		}
	}
}

// Measures a roll of timers with some 40 bins each, and the store's copy of them.
func BenchmarkRollTimers(b *testing.B) {
	const timers = 1000
	table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	samples := samplesOf(timers, "ms")
	r := rand.New(rand.NewPCG(1, 1))
	least := []time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		for range 80 {
			for _, s := range samples {
				s.Whole = int64(20 * math.Exp(0.6*r.NormFloat64()))
				w.Apply(s)
			}
		}
		begun := time.Now()
		table.Roll()
		rolled := time.Now()
		for i := range table.Blocks() {
			table.AppendDelta(nil, i)
		}
		least[0], least[1] = min(least[0], rolled.Sub(begun)), min(least[1], time.Since(rolled))
	}
	b.ReportMetric(float64(least[0].Nanoseconds())/timers, "ns/roll")
	b.ReportMetric(float64(least[1].Nanoseconds())/timers, "ns/delta")
}

func BenchmarkLetGo(b *testing.B) {
	samples := samplesOf(200_000, "c")
	for b.Loop() {
		b.StopTimer()
		table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
		w := table.NewWriter()
		for _, s := range samples {
			w.Apply(s)
		}
		w.Offline()
		b.StartTimer()
		for i := range table.Blocks() {
			var all []lookup.Ref
			for place := range uint32(kind.BlockSeries) {
				if state := table.blocks.at[i].Load().page.cells[place].State.Load(); state&kind.Live != 0 {
					all = append(all, lookup.Ref{Number: uint32(i)<<kind.BlockBits | place, State: state})
				}
			}
			table.evict(all, deleted, table.Clock.Now())
		}
		pace := pace{table.Clock.Now().Wall}
		table.reclaim(&pace)
		if table.Series() != 0 || len(table.evictions.tombstones) != 0 {
			b.Fatal(table.Series(), len(table.evictions.tombstones))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(samples)), "ns/series")
}
