package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Origins that share the samples at random answer together as one table answers that gets all of
// them.
func TestMergedEqualsOneTable(t *testing.T) {
	for seed := range uint64(size(12, 6, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			replicated(t, 3, func(r *replicas) {
				one := newFixture(r.t).running()
				one.SetSeed.Store(1)
				random := rand.New(rand.NewPCG(seed, 2))
				r.SetRank(random.IntN(3))
				for begun := time.Now(); time.Since(begun) < 45*time.Second; {
					line := sharedLine(random)
					one.push(line)
					r.tables[originOf(line, random)].push(line)
					time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
					if age := time.Since(begun); age > 25*time.Second && random.IntN(100) == 0 {
						r.agreesWith(one) // rates count the last flush, half a second in age
					}
				}
				r.agreesWith(one)
			})
		})
	}
}

// sharedLine returns a sample of one of a few series.
func sharedLine(r *rand.Rand) string {
	where := fmt.Sprintf("#pod:p%d,ns:ns,code:%d", r.IntN(3), r.IntN(2))
	switch r.IntN(5) {
	case 0:
		return fmt.Sprintf("whole:%d|c|%s", r.IntN(9), where)
	case 1:
		return fmt.Sprintf("decimal:%d.%03d|c|%s", r.IntN(9), r.IntN(1000), where)
	case 2:
		return fmt.Sprintf("lat:%d|ms|%s", 1+r.IntN(500), where)
	case 3:
		return fmt.Sprintf("users:u%d|s|%s", r.IntN(60), where)
	}
	return fmt.Sprintf("temp:%d|g|#pod:p%d,ns:ns", r.IntN(100), r.IntN(3))
}

// originOf chooses an origin. Gauges stay with theirs: two changes within a tick have no order.
func originOf(line string, r *rand.Rand) int {
	if _, pod, gauge := strings.Cut(line, "|g|#pod:p"); gauge {
		return int(pod[0]) % 3
	}
	return r.IntN(3)
}

// agreesWith compares all stats over a window that holds all samples, once every flush arrived.
func (r *replicas) agreesWith(one *fixture) {
	r.t.Helper()
	time.Sleep(600 * time.Millisecond)
	synctest.Wait()
	for asked, tolerance := range map[string]float64{
		"whole:total": 0, "whole:count:1m": 0, "whole:rate:1m": 0.1, "decimal:total": 0, "decimal:count:1m": 1e-9,
		"lat:count:1m": 0, "lat:sum:1m": 1e-9, "lat:min:1m": 0, "lat:max:1m": 0, "lat:mean:1m": 1e-9, "lat:p50:1m": 0, "lat:p95:1m": 0, "lat:p999:1m": 0,
		"users:unique:1m": 0, "temp:last": 0, "temp:mean:1m": 0.2,
	} {
		q := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)}
		got, _ := r.Objects(q)
		want, _ := one.Objects(q)
		if len(got) != len(want) {
			r.t.Errorf("%s: %v, want %v", asked, got, want)
			continue
		}
		for i := range got {
			v, w := got[i].Value.Float64(), want[i].Value.Float64()
			if got[i].Object != want[i].Object || math.Abs(v-w) > tolerance*math.Abs(w) {
				r.t.Errorf("%s of %s: %v, want %v of %s", asked, got[i].Object.Name, v, w, want[i].Object.Name)
			}
		}
	}
}
