package aggregate

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

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
