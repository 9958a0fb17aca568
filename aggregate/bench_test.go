package aggregate

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"syscall"
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

// BenchmarkOneSeries reads a metric of one series among many: what an autoscaler or KEDA asks for.
func BenchmarkOneSeries(b *testing.B) {
	f := newFixture(b)
	for i := range 1000 {
		f.push(fmt.Sprintf("q%d:1|c|#ns:ns", i), fmt.Sprintf("q%d:1|c|#pod:a,ns:ns", i))
	}
	m := NewMerged(f.Table)
	asked := metric.ParseExpression("q7")
	for name, read := range map[string]func() ([]metric.Point, error){
		"external": func() ([]metric.Point, error) { return m.External(metric.Query{Namespace: "ns", Expression: asked}) },
		"object": func() ([]metric.Point, error) {
			return m.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: asked})
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if points, err := read(); err != nil || len(points) != 1 {
					b.Fatal(len(points), err)
				}
			}
		})
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

// BenchmarkRoll is what it costs, a series, to note the values of 750,000 counters that all
// changed, and to encode them for the store: as rolled before, and rolled with it.
func BenchmarkRoll(b *testing.B) {
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
				if c := &one.page.cells[place]; c.State.Load()&kind.Live != 0 {
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
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/series")
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
		b.ReportMetric(float64(bytes)/series, "B/series")
	})
	b.Run("both", func(b *testing.B) { each(b, func() { save() }) })
}

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

// BenchmarkMergedObjects reads a metric of 1,000 pods: from the own table, with a shadow of another
// 1,000 pods, and with a twin of each series at one or two other origins.
func BenchmarkMergedObjects(b *testing.B) {
	for _, c := range []struct {
		name    string
		shadows int
		twins   bool
	}{{"alone", 0, false}, {"apart", 1, false}, {"twins", 1, true}, {"three", 2, true}} {
		for _, asked := range []string{"hits", "hits:total"} {
			b.Run(c.name+"/"+asked, func(b *testing.B) {
				m, want := mergedPods(b, c.shadows, c.twins)
				q := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)}
				b.ReportAllocs()
				for b.Loop() {
					if points, err := m.Objects(q); err != nil || len(points) != want {
						b.Fatal(len(points), err)
					}
				}
			})
		}
	}
}

// mergedPods returns the answers over 1,000 pods at each origin, of the same names if they are twins.
// Each counter has changed in ten ticks.
func mergedPods(b *testing.B, others int, twins bool) (m *Merged, objects int) {
	var all []*fixture
	for range others + 1 {
		all = append(all, newFixture(b))
	}
	m = NewMerged(all[0].Table)
	var shadows []*Shadow
	for _, f := range all[1:] {
		s := NewShadow(DefaultConfig(), slog.New(slog.DiscardHandler))
		if err := s.Begin(f.AppendClock(nil)); err != nil {
			b.Fatal(err)
		}
		shadows = append(shadows, s)
	}
	m.SetShadows(shadows)
	for i, f := range all {
		prefix := "pod"
		if !twins {
			prefix = fmt.Sprint("pod", i)
		}
		for tick := range 10 {
			f.Clock.Offset += f.Clock.Tick
			for pod := range 1000 {
				f.push(fmt.Sprintf("hits:%d|c|#pod:%s-%d,ns:ns", tick+1, prefix, pod))
			}
			f.Roll()
		}
		if i > 0 {
			(&told{Shadow: shadows[i-1], of: f}).flush()
		}
	}
	if twins {
		return m, 1000
	}
	return m, 1000 * len(all)
}

// cpuTime is the processor time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
