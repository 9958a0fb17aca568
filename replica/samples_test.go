package replica

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
)

// simulated is a sample of a simulation.
type simulated struct {
	order    int // of all samples
	name     string
	pod      int
	kind     metric.Kind
	op       metric.Op
	whole    int64
	fraction float64
	member   string
}

func podName(pod int) string { return fmt.Sprint("p", pod) }

func (s *simulated) apply(t *testing.T, w *aggregate.Writer) {
	sample := metric.Sample{Name: []byte(s.name), Separator: ':', Kind: s.kind, Op: s.op, Whole: s.whole, Fraction: s.fraction}
	sample.Tags, sample.Member = fmt.Append(nil, s.pod), []byte(s.member)
	w.Online()
	defer w.Offline()
	if got := w.Apply(&sample); got != metric.Applied {
		t.Fatal(got)
	}
}

// Samples that the pods of a simulation push at any moment to any process. Of gauge "level", each
// value is pushed at a moment of its own. "free" is set and shifted at once, so it has no model.
func randomSample(rng *rand.Rand) simulated {
	s := simulated{pod: rng.IntN(3), whole: int64(rng.IntN(9))}
	switch rng.IntN(9) {
	case 0:
		s.name, s.kind, s.op, s.fraction = "decimal", metric.Counter, metric.Add, float64(rng.IntN(1000))/1000
	case 1:
		s.name, s.kind, s.op, s.whole = "lat", metric.Timer, metric.Observe, int64(1+rng.IntN(500))
	case 2:
		s.name, s.kind, s.op, s.member = "users", metric.Set, metric.Insert, fmt.Sprint(rng.IntN(90))
	case 3:
		s.name, s.kind, s.op = "level", metric.Gauge, metric.Assign
	case 4:
		s.name, s.kind, s.op, s.whole = "shifted", metric.Gauge, metric.Shift, s.whole-4
	case 5:
		s.name, s.kind, s.op, s.whole = "mixed", metric.Gauge, metric.Shift, s.whole-4
	case 6:
		s.name, s.kind, s.op = "free", metric.Gauge, []metric.Op{metric.Assign, metric.Shift}[rng.IntN(2)]
	default:
		s.name, s.kind, s.op = counted[rng.IntN(3)], metric.Counter, metric.Add
	}
	return s
}

// exactly are the expressions that equal those of one table which got all samples, at every replica
// and quiet moment.
var exactly = []string{"a:total", "b:total", "c:total", "a:count:1h", "decimal:total", "decimal:count:1h",
	"lat:count:1h", "lat:sum:1h", "lat:min:1h", "lat:max:1h", "lat:p50:1h", "lat:p95:1h",
	"users:unique:1h", "level:last", "shifted:last", "mixed:last"}

// union returns the merged answers of a table alone that got the samples of all processes, in their
// order.
func union(t *testing.T, all []*process) *aggregate.Merged {
	var samples []simulated
	for _, p := range all {
		samples = append(samples, p.samples...)
	}
	slices.SortFunc(samples, func(a, b simulated) int { return cmp.Compare(a.order, b.order) })
	one := aggregate.New(all[0].config, describe, slog.New(slog.DiscardHandler))
	one.SetSeed.Store(all[0].table.SetSeed.Load())
	w := one.NewWriter()
	for i := range samples {
		samples[i].apply(t, w)
	}
	return aggregate.NewMerged(one)
}
