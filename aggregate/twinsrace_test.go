package aggregate

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Writers at two origins shift gauges, push totals and see members while news, another seed and
// readers come: each shift counts once.
func TestReplicasWhileWritersWrite(t *testing.T) {
	r := newFleetAfter(t, 2, 0)
	for _, f := range r.origins {
		f.push("g:0|g|#pod:a,ns:ns")
	}
	r.exchange()
	var writers, others sync.WaitGroup
	var stop atomic.Bool
	const shifts = 3000
	for _, f := range r.origins {
		for k := range 2 {
			writers.Go(func() {
				w := f.NewWriter()
				defer w.Close()
				for i := range shifts {
					for _, line := range []string{"g:+1|g|#pod:a,ns:ns", fmt.Sprintf("p:%d|g|#pod:a,ns:ns", i), fmt.Sprintf("s:%d|s|#pod:a,ns:ns", i%50)} {
						if refused := w.Apply(sample(line)); refused != metric.Applied {
							t.Error(refused)
						}
					}
					if k == 0 {
						w.Apply(total("c", float64(i)))
					}
					w.Quiesce()
				}
			})
		}
	}
	others.Go(func() {
		for seed := uint64(100); !stop.Load(); seed-- {
			r.exchange()
			r.origins[0].AdoptSetSeed(max(seed, 1))
			time.Sleep(time.Millisecond)
		}
	})
	others.Go(func() {
		m := r.merged(0)
		for !stop.Load() {
			for _, asked := range []string{"g", "p", "s:unique:10s", "c:total"} {
				answer(m, asked)
			}
		}
	})
	writers.Wait()
	stop.Store(true)
	others.Wait()
	r.exchange()
	if got, _ := answer(r.merged(0), "g"); got != metric.Int(4*shifts) {
		t.Errorf("%s, want %d", got.Append(nil), 4*shifts)
	}
	if got, _ := answer(r.merged(0), "s:unique:1m"); got != metric.Int(50) {
		t.Errorf("%s members, want 50", got.Append(nil))
	}
}
