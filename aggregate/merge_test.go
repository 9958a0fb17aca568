package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// merged returns the answers at replica i.
func (r *fleet) merged(i int) *Merged {
	m := NewMerged(r.origins[i].Table)
	var all []*Shadow
	for j := range r.origins {
		if j != i {
			all = append(all, r.shadow(j, i))
		}
	}
	m.SetShadows(all)
	m.SetRank(i)
	return m
}

// asker answers queries.
type asker interface {
	Objects(metric.Query) ([]metric.Point, error)
}

// answer returns the value of pod a's metric.
func answer(from asker, asked string) (metric.Number, error) {
	p, err := from.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression(asked)})
	if err != nil {
		return metric.Number{}, err
	}
	return p[0].Value, nil
}

// feed makes samples of all kinds. Running totals are of one client each.
type feed struct {
	random *rand.Rand
	client metric.Number
	counts []float64
}

func (f *feed) next() *metric.Sample {
	r := f.random
	line := func(format string, args ...any) *metric.Sample {
		return sample(fmt.Sprintf(format, args...) + "|#pod:a,ns:ns")
	}
	labelled := func(s *metric.Sample) *metric.Sample {
		s.Tags = fmt.Appendf(nil, "pod:a,ns:ns,x:%d", r.IntN(3))
		return s
	}
	switch r.IntN(9) {
	case 0:
		return labelled(line("c:%d|c", r.IntN(1000)))
	case 1:
		return labelled(line("f:%d.%09d|c", r.IntN(1000), r.IntN(1e9)))
	case 2:
		return labelled(line("t:%d|ms", 1+r.IntN(5000)))
	case 3:
		return labelled(line("s:%d|s", r.IntN(200)))
	case 4:
		return line("many:%d|s", r.IntN(100_000))
	case 5:
		return labelled(line("g:%d|g", r.Int64N(1<<60)))
	case 6:
		return labelled(line("h:%+d|g", r.IntN(2000)-1000))
	case 7:
		f.client = f.client.Plus(metric.Decimal(r.Int64N(100), r.Int64N(1e9)))
		s := total("rc", 0)
		setNumber(s, f.client)
		return s
	}
	for i := range f.counts {
		f.counts[i] += float64(r.IntN(5))
	}
	s := pushOf(metric.Accumulate, histogram([]float64{1, 2, 5}, append([]float64(nil), f.counts...), f.counts[1]))
	s.Name = []byte("rh")
	return s
}

// mergedStats are stats of all kinds, with the relative error that the merge may add. Windows of
// counters are in merged_test.go.
var mergedStats = map[string]float64{
	"c:total": 0, "f:total": 0, "rc:total": 0, "g": 0, "h": 0,
	"t:p50:1m": 0, "t:p95:1m": 0, "t:p99:10s": 0, "t:min:1m": 0, "t:max:1m": 0, "t:mean:1m": 1e-9,
	"s:unique:10s": 0, "s:unique:1m": 0,
	"rh:p95:1m": 1e-9, "rh:max:1m": 0,
}

// Samples that are spread over several origins read as in one table that got all of them: exactly,
// for every kind, with clients that move with each sample.
func TestMergeOfEveryKind(t *testing.T) {
	for seed := range uint64(size(12, 2, 1)) {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t, 1+int(seed+1)%4)
			c := r.origins[0].config
			all := newFixtureOf(t, c)
			for _, f := range append(r.origins, all) {
				f.SetSeed.Store(1)              // estimates are the same in each run
				f.push("warm:1|c|#pod:b,ns:ns") // the first roll of a block counts in the tick before
			}
			all.Roll()
			r.exchange()
			random := rand.New(rand.NewPCG(seed, 4))
			f := &feed{random: random, counts: make([]float64, 4)}
			large := sightings{}
			for step := range size(150, 90, 40) {
				for range 1 + random.IntN(20) {
					s := f.next()
					for range 1 + len(s.Name)/4*30 {
						r.origins[random.IntN(len(r.origins))].apply(s)
						if s.Name[0] != 'm' {
							all.apply(s)
							break
						}
						large.apply(all, s)
						s = sample(fmt.Sprintf("many:%d|s|#pod:a,ns:ns", random.IntN(100_000)))
					}
					if s.Op == metric.Accumulate || s.Kind == metric.Gauge {
						time.Sleep(time.Millisecond)
						r.exchange()
					}
				}
				time.Sleep(time.Second - time.Duration(time.Now().UnixNano()%1e9))
				all.Roll()
				r.exchange()
				if step > 10 && step%7 == 0 {
					when := fmt.Sprintf("seed %d, step %d", seed, step)
					r.compareLarge(all, large, when)
					r.compare(all, when)
				}
			}
		})
	}
}

func (r *fleet) compare(all *fixture, when string) {
	r.t.Helper()
	for i := range r.origins {
		m := r.merged(i)
		for asked, off := range mergedStats {
			want, err := answer(all, asked)
			if err != nil {
				continue
			}
			got, err := answer(m, asked)
			if err != nil {
				r.t.Fatalf("%s: %s at replica %d: %v", when, asked, i, err)
			}
			if got != want && math.Abs(got.Float64()-want.Float64()) > off*math.Abs(want.Float64()) {
				r.t.Errorf("%s: %s at replica %d of %d is %s, want %s", when, asked, i, len(r.origins), got.Append(nil), want.Append(nil))
			}
		}
	}
	if r.t.Failed() {
		r.t.FailNow()
	}
}

// sightings holds the receiving time at which each member of a set was last seen.
type sightings map[string]time.Duration

// apply applies a sample of the set to a table.
func (seen sightings) apply(f *fixture, s *metric.Sample) {
	f.apply(s)
	seen[string(s.Member)] = f.Clock.Now().At
}

// since counts the members last seen at a receiving time or later.
func (seen sightings) since(at time.Duration) (n float64) {
	for _, last := range seen {
		if last >= at {
			n++
		}
	}
	return n
}

// estimateError is four standard errors of an estimate by 4,096 registers: 4·1.04/√4096.
const estimateError = 4 * 1.04 / 64

// compareLarge checks a set that is large enough for an estimate in some tables, and exact in
// others, against the members that were seen.
//
// The exact form counts from the window's start. The registers are of a tenth of the window each,
// and count from the first tenth that begins in the window. A set may have members in both forms.
// So an answer is between the two counts, apart from the error of the estimate.
func (r *fleet) compareLarge(all *fixture, seen sightings, when string) {
	r.t.Helper()
	for _, w := range all.Windows() {
		asked := "many:unique:" + metric.FormatWindow(w)
		start, part := all.Clock.Now().At-w, w/window.TicksPerWindow
		most, least := seen.since(start), seen.since((start+part-1)/part*part)
		low, high := math.Floor(least*(1-estimateError)), math.Ceil(most*(1+estimateError))
		check := func(from asker, name string) {
			got, err := answer(from, asked)
			if err != nil {
				r.t.Fatalf("%s: %s of %s: %v", when, asked, name, err)
			}
			if v := got.Float64(); v < low || v > high {
				r.t.Errorf("%s: %s of %s, of %d origins, is %v, want %v to %v",
					when, asked, name, len(r.origins), v, low, high)
			}
		}
		check(all, "one table")
		for i := range r.origins {
			check(r.merged(i), fmt.Sprintf("replica %d", i))
		}
	}
}
