package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

var nan = math.NaN()

// histogram makes one with a sum, whose count is that of its buckets.
func histogram(bounds, counts []float64, sum float64) *metric.Histogram {
	h := &metric.Histogram{Bounds: bounds, Counts: counts, Sum: sum, Min: nan, Max: nan}
	for _, n := range counts {
		h.Count += n
	}
	return h
}

func summary(count, sum float64, quantiles ...metric.Quantile) *metric.Histogram {
	return &metric.Histogram{Count: count, Sum: sum, Min: nan, Max: nan, Quantiles: quantiles}
}

func within(h *metric.Histogram, least, most float64) *metric.Histogram {
	h.Min, h.Max = least, most
	return h
}

// pushOf makes a sample of a histogram; the tags are pod a's and those given.
func pushOf(op metric.Op, h *metric.Histogram, tags ...string) *metric.Sample {
	all := strings.Join(append([]string{"pod:a,ns:ns"}, tags...), ",")
	return &metric.Sample{Name: []byte("t"), Kind: metric.Timer, Op: op, Histogram: h, Tags: []byte(all), Separator: ':'}
}

func taken(s *metric.Sample, seconds int64) *metric.Sample { s.Dated = seconds * 1e9; return s }

// earlier is a sample from some milliseconds before.
func earlier(s *metric.Sample) *metric.Sample { s.Dated -= 50e6; return s }

func TestHistograms(t *testing.T) {
	b := []float64{1, 2, 4}
	accumulate := func(h *metric.Histogram) *metric.Sample { return pushOf(metric.Accumulate, h) }
	merge := func(h *metric.Histogram) *metric.Sample { return pushOf(metric.Merge, h) }
	const nothing = `"t" for pods in "ns" has no %s: nothing was observed in the last 1m`
	for name, c := range map[string]struct {
		pushed []*metric.Sample
		want   map[string]string
	}{
		"the first is where it begins": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40))},
			map[string]string{"t:count": "a=0", "t:sum": "a=0", "t:rate": "a=0", "t": fmt.Sprintf(nothing, "mean"), "t:p50": fmt.Sprintf(nothing, "p50")}},
		"what it grew by counts": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), accumulate(histogram(b, []float64{5, 7, 7, 5}, 52.5))},
			map[string]string{"t:count": "a=4", "t:sum": "a=12.5", "t": "a=3.125", "t:min": "a=1", "t:max": "a=4"}},
		"the same is no growth": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), accumulate(histogram(b, []float64{5, 5, 5, 5}, 40))},
			map[string]string{"t:count": "a=0", "t:sum": "a=0"}},
		"a lower bucket began anew": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), accumulate(histogram(b, []float64{1, 30, 5, 5}, 90))},
			map[string]string{"t:count": "a=41", "t:sum": "a=90"}},
		"a lower count began anew": {[]*metric.Sample{accumulate(summary(10, 40)), accumulate(summary(9, 50))},
			map[string]string{"t:count": "a=9", "t:sum": "a=50"}},
		"a later start began anew": {[]*metric.Sample{started(accumulate(summary(10, 40)), 1), started(accumulate(summary(11, 50)), 2)},
			map[string]string{"t:count": "a=11", "t:sum": "a=50"}},
		"a lower one of the same second is late": {[]*metric.Sample{taken(accumulate(summary(10, 40)), 9), taken(accumulate(summary(30, 90)), 12),
			earlier(taken(accumulate(summary(20, 60)), 12)), taken(accumulate(summary(25, 60)), 12), taken(accumulate(summary(31, 91)), 13)},
			map[string]string{"t:count": "a=21", "t:sum": "a=51"}},
		"a late one changes nothing": {[]*metric.Sample{taken(accumulate(summary(10, 40)), 9), taken(accumulate(summary(30, 90)), 12), taken(accumulate(summary(20, 60)), 10), taken(accumulate(summary(31, 91)), 12)},
			map[string]string{"t:count": "a=21", "t:sum": "a=51"}},
		"other buckets, of which some are the same": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), accumulate(histogram([]float64{1, 3, 9}, []float64{5, 5, 5, 6}, 41))},
			map[string]string{"t:count": "a=1", "t:sum": "a=1"}},
		"other buckets, and fewer in those that are the same, began anew": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), accumulate(histogram([]float64{1, 3, 9}, []float64{4, 5, 5, 9}, 41))},
			map[string]string{"t:count": "a=23", "t:sum": "a=41"}},
		"other buckets, all of them": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), accumulate(histogram([]float64{3, 9}, []float64{9, 9, 6}, 52))},
			map[string]string{"t:count": "a=4", "t:sum": "a=12"}},
		"buckets that come and go": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), accumulate(histogram([]float64{2}, []float64{10, 11}, 41)), accumulate(histogram([]float64{1, 4}, []float64{5, 11, 6}, 42))},
			map[string]string{"t:count": "a=2", "t:sum": "a=2"}},
		"a bucket more is no fresh start": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 0}, 40)), accumulate(histogram([]float64{1, 2, 4, 8}, []float64{5, 5, 5, 3, 0}, 58))},
			map[string]string{"t:count": "a=3", "t:sum": "a=18", "t:min": "a=4", "t:max": "a=8"}},
		"nor one less": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 0}, 40)), accumulate(histogram([]float64{1, 4}, []float64{5, 12, 0}, 46))},
			map[string]string{"t:count": "a=2", "t:sum": "a=6", "t:min": "a=1", "t:max": "a=4"}},
		"all of a delta is new": {[]*metric.Sample{merge(histogram(b, []float64{1, 0, 0, 0}, 0.5)), merge(histogram(b, []float64{0, 0, 3, 0}, 9))},
			map[string]string{"t:count": "a=4", "t:sum": "a=9.5", "t:min": "a=0", "t:max": "a=4"}},
		"a delta between totals": {[]*metric.Sample{accumulate(histogram(b, []float64{5, 5, 5, 5}, 40)), merge(histogram(b, []float64{1, 0, 0, 0}, 1)), accumulate(histogram(b, []float64{5, 5, 5, 7}, 60))},
			map[string]string{"t:count": "a=3", "t:sum": "a=21"}},
		"extremes that are known": {[]*metric.Sample{merge(within(histogram(b, []float64{1, 0, 0, 2}, 33), 0.25, 19))},
			map[string]string{"t:min": "a=0.25", "t:max": "a=19"}},
		"extremes of long ago": {[]*metric.Sample{accumulate(within(histogram(b, []float64{1, 0, 0, 2}, 33), 0.25, 19)), accumulate(within(histogram(b, []float64{1, 4, 0, 2}, 39), 0.25, 19))},
			map[string]string{"t:min": "a=1", "t:max": "a=2"}},
		"a maximum within the last bucket in use": {[]*metric.Sample{merge(within(histogram(b, []float64{0, 4, 0, 0}, 39), 1.25, 1.5))},
			map[string]string{"t:min": "a=1.25", "t:max": "a=1.5"}},
		"the count that is told counts": {[]*metric.Sample{merge(&metric.Histogram{Bounds: b, Counts: []float64{1, 1, 1, 1}, Count: 1e15 + 1, Sum: 1, Min: nan, Max: nan})},
			map[string]string{"t:count": "a=1000000000000001"}},
		"no buckets": {[]*metric.Sample{merge(within(&metric.Histogram{Count: 4, Sum: 10}, 1, 5)), merge(within(&metric.Histogram{Count: 1, Sum: 2, Counts: []float64{1}}, nan, nan))},
			map[string]string{"t:count": "a=5", "t": "a=2.4", "t:min": "a=1", "t:max": "a=5", "t:p50": `"t" for pods in "ns" has no p50: the pushed data does not contain it`}},
		"no buckets in one of two": {[]*metric.Sample{merge(histogram(b, []float64{0, 10, 0, 0}, 15)), merge(within(&metric.Histogram{Count: 90, Sum: 450}, 5, 5))},
			map[string]string{"t:count": "a=100", "t": "a=4.65", "t:max": "a=5", "t:p50": `"t" for pods in "ns" has no p50: the pushed data does not contain it`}},
		"a sum that is not known": {[]*metric.Sample{merge(histogram(b, []float64{0, 10, 0, 0}, nan)), merge(histogram(b, []float64{0, 10, 0, 0}, math.Inf(1)))},
			map[string]string{"t:count": "a=20", "t": `"t" for pods in "ns" has no mean: the pushed data does not contain it`,
				"t:sum": `"t" for pods in "ns" has no sum: the pushed data does not contain it`, "t:max": "a=2"}},
		"an infinite sum": {[]*metric.Sample{merge(histogram(b, []float64{0, 10, 0, 0}, math.Inf(1)))},
			map[string]string{"t:count": "a=10", "t:sum": `"t" for pods in "ns" has no sum: the pushed data does not contain it`}},
		"below zero": {[]*metric.Sample{merge(histogram([]float64{-4, -2, 0}, []float64{0, 3, 0, 0}, -9)), merge(histogram([]float64{-4, -2, 0}, []float64{1, 0, 0, 0}, -4))},
			map[string]string{"t:min": "a=-4", "t:max": "a=-2", "t:sum": "a=-13"}},
		"nothing at all": {[]*metric.Sample{merge(histogram(b, []float64{0, 0, 0, 0}, 0))},
			map[string]string{"t:count": "a=0", "t:min": fmt.Sprintf(nothing, "min")}},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, func(f *fixture) {
				for _, s := range c.pushed {
					f.apply(s)
					time.Sleep(700 * time.Millisecond)
				}
				for asked, want := range c.want {
					f.want(asked, want)
				}
				time.Sleep(2 * time.Minute)
				f.want("t:count", "a=0")
			})
		})
	}
}

// Faults of a histogram are the cases of metric.TestHistogramCheck.
func TestHistogramsRefused(t *testing.T) {
	f := newFixture(t)
	for h, want := range map[*metric.Histogram]metric.Reason{
		histogram([]float64{1, 2}, []float64{1, -2, 3}, 1): metric.BadValue,
		nil: metric.Malformed,
	} {
		if got := f.w.Apply(pushOf(metric.Merge, h)); got != want || f.Series() != 0 {
			t.Errorf("%v: %s, want %s; %d series", h, got, want, f.Series())
		}
	}
}

// A pushed histogram is the caller's: the table copies it.
func TestHistogramIsBorrowed(t *testing.T) {
	start(t, func(f *fixture) {
		h := histogram([]float64{1, 2}, []float64{0, 10, 0}, 15)
		f.apply(pushOf(metric.Accumulate, summary(0, 0)), pushOf(metric.Merge, h))
		h.Bounds[0], h.Bounds[1], h.Counts[1] = 7, 8, 9
		f.want("t:max", "a=2")
		f.apply(pushOf(metric.Merge, h))
		f.want("t:max", "a=8")
		if got := f.value("t:p50"); got > 2.02 { // ten of 19 lie below 2
			t.Errorf("p50 %v: what was kept has changed", got)
		}
	})
}

// histogramQuantile is Prometheus' histogram_quantile (promql/quantile.go, bucketQuantile) for
// buckets that are not cumulative.
func histogramQuantile(q float64, bounds, counts []float64) float64 {
	total := 0.0
	for _, n := range counts {
		total += n
	}
	rank, below := q*total, 0.0
	for i, n := range counts {
		if below+n < rank || n == 0 && below+n <= rank {
			below += n
			continue
		}
		switch {
		case i == len(bounds):
			return bounds[i-1]
		case i == 0 && bounds[0] <= 0:
			return bounds[0]
		}
		low := 0.0
		if i > 0 {
			low = bounds[i-1]
		}
		return low + (bounds[i]-low)*(rank-below)/n
	}
	return nan
}

// Percentiles are what Prometheus would say of the same buckets: within 1 % of that value, or,
// where the rank falls between two buckets, of either side of the gap.
func TestPercentilesAgreeWithHistogramQuantile(t *testing.T) {
	worst := 0.0
	for seed := range uint64(size(400, 80, 30)) {
		r := rand.New(rand.NewPCG(seed, 9))
		bounds, counts := randomBuckets(r)
		f := newFixture(t)
		zero := histogram(bounds, make([]float64, len(counts)), 0)
		f.apply(pushOf(metric.Accumulate, zero))
		for range 1 + r.IntN(3) { // in several parts, as they come
			for i := range zero.Counts {
				zero.Counts[i] += counts[i]
			}
			h := histogram(bounds, zero.Counts, 1)
			f.apply(pushOf(metric.Accumulate, h))
		}
		for _, stat := range metric.Timer.Stats() {
			q := stat.Quantile()
			if math.IsNaN(q) {
				continue
			}
			got := f.value("t:" + stat.String())
			const step = 1e-9 // of the rank: a gap is as wide as it likes
			low, high := histogramQuantile(q-step, bounds, counts), histogramQuantile(q+step, bounds, counts)
			off := max(low-got, got-high, 0) / max(math.Abs(low), math.Abs(high), 1e-12)
			worst = max(worst, off)
			if off > kind.RelativeError*1.02 {
				t.Errorf("seed %d: %s is %v, want %v to %v; bounds %v, counts %v", seed, stat, got, low, high, bounds, counts)
			}
		}
	}
	t.Logf("at most %.3f %% off", worst*100)
}

func randomBuckets(r *rand.Rand) (bounds, counts []float64) {
	v := math.Exp(r.NormFloat64() * 5)
	if r.IntN(4) == 0 {
		v = -v * float64(r.IntN(20))
	}
	for n := 1 + r.IntN(20); n > 0 && v < 1e16; n-- {
		bounds = append(bounds, v)
		v += (math.Abs(v) + 1e-3) * (0.05 + 3*r.Float64())
		if v < 1e9 && r.IntN(6) == 0 {
			v = math.Abs(v) * 1000
		}
	}
	for range len(bounds) + 1 {
		n := 0.0
		if r.IntN(3) > 0 {
			n = float64(r.IntN(1 + r.IntN(10000)))
		}
		counts = append(counts, n)
	}
	counts[r.IntN(len(counts))]++
	return bounds, counts
}

// If the extremes are known, the first bucket begins at the minimum, and the last one ends at the
// maximum.
func TestPercentilesWithKnownExtremes(t *testing.T) {
	f := newFixture(t)
	f.apply(pushOf(metric.Merge, within(histogram([]float64{10, 20}, []float64{100, 0, 100}, 1), 8, 30)))
	for asked, want := range map[string]float64{"t:p50": 10, "t:p75": 25, "t:p90": 28, "t:p999": 29.98} {
		if got := f.value(asked); math.Abs(got-want) > want*kind.RelativeError {
			t.Errorf("%s: %v, want %v", asked, got, want)
		}
	}
	f.apply(pushOf(metric.Merge, within(histogram([]float64{10, 20}, []float64{200, 0, 0}, 1), 8, 9.5)))
	if got, want := f.value("t:p50"), 8+2*200.0/300; math.Abs(got-want) > want*kind.RelativeError {
		t.Errorf("p50 %v, want %v", got, want)
	}
}

// The label sets of an object merge, histograms with what was observed one by one.
func TestHistogramsMerge(t *testing.T) {
	start(t, func(f *fixture) {
		f.apply(pushOf(metric.Merge, histogram([]float64{10, 20}, []float64{0, 100, 0}, 1500), "k:1"))
		f.apply(pushOf(metric.Merge, histogram([]float64{30, 40}, []float64{0, 100, 0}, 3500), "k:2"))
		f.push("t:100|ms|@0.01|#pod:a,ns:ns,k:2", "t:5|ms|#pod:a,ns:ns")
		f.want("t:count", "a=301")
		f.want("t:sum", "a=15005")
		f.want("t:min", "a=5")
		f.want("t:max", "a=100")
		f.want("t:rate:10s", "a=30.1")
		for asked, want := range map[string]float64{"t:p50": 35, "t:p90": 100} {
			if got := f.value(asked); math.Abs(got-want) > want*0.015 {
				t.Errorf("%s: %v, want %v", asked, got, want)
			}
		}
		if got := f.askExternal("ns", "t"); !strings.Contains(got, "none was ever received") {
			t.Error(got)
		}
	})
}

// Readers of an external metric add up its label sets. If the sum of one is unknown, the others are no sum.
func TestSumOfAnUnknownPart(t *testing.T) {
	start(t, func(f *fixture) {
		external := func(h *metric.Histogram, tags string) {
			f.apply(&metric.Sample{Name: []byte("t"), Kind: metric.Timer, Op: metric.Merge, Histogram: h, Tags: []byte(tags), Separator: ':'})
		}
		external(histogram([]float64{1, 2}, []float64{0, 3, 0}, 5), "k:1")
		external(histogram([]float64{1, 2}, []float64{0, 4, 0}, nan), "k:2")
		external(histogram([]float64{1, 2}, []float64{0, 2, 0}, 3), "k:3")
		for asked, want := range map[string]string{
			"t:sum":   `"t" among external metrics has no sum: the pushed data does not contain it`,
			"t:count": `{k=1}=3 {k=2}=4 {k=3}=2`,
		} {
			if got := f.askExternal("", asked); got != want {
				t.Errorf("%s: %s, want %s", asked, got, want)
			}
		}
	})
}

func TestSummaries(t *testing.T) {
	start(t, func(f *fixture) {
		first := summary(10, 100, metric.Quantile{Q: 0.5, Value: 8}, metric.Quantile{Q: 0.25, Value: 3}, metric.Quantile{Q: 0.99, Value: 40}, metric.Quantile{Q: 0.9, Value: nan})
		f.apply(pushOf(metric.Accumulate, first, "k:1"))
		f.want("t:p50", "a=8")
		f.want("t:count", "a=0")
		f.want("t:p75", `"t" for pods in "ns" has no p75: the last push had p50, p99`)
		f.want("t:p90", `"t" for pods in "ns" has no p90: the last push had p50, p99`)
		time.Sleep(5 * time.Second)
		f.apply(pushOf(metric.Accumulate, summary(14, 120, metric.Quantile{Q: 0.5, Value: 9}), "k:1"))
		f.want("t:p50", "a=9")
		f.want("t:count", "a=4")
		f.want("t", "a=5")
		f.want("t:min", `"t" for pods in "ns" has no min: the pushed data does not contain it`)
		time.Sleep(30 * time.Minute)
		f.want("t:p50", "a=9") // as long as the series lives
		f.apply(pushOf(metric.Accumulate, summary(15, 120, metric.Quantile{Q: 0.25, Value: 9}), "k:1"))
		f.want("t:p50", `"t" for pods in "ns" has no p50: the last push had no supported percentile`)
	})
}

// Percentiles of two label sets have no common value, whatever the other one is.
func TestSummariesCannotBeMerged(t *testing.T) {
	start(t, func(f *fixture) {
		h := summary(10, 100, metric.Quantile{Q: 0.5, Value: 8})
		f.apply(pushOf(metric.Accumulate, h, "k:1"))
		f.push("t:5|ms|#pod:a,ns:ns,k:2")
		ask := func(q metric.Query) ([]metric.Point, error) {
			q.Expression = metric.ParseExpression("t:p50")
			if q.Resource == "" {
				return f.External(q)
			}
			return f.Objects(q)
		}
		external := pushOf(metric.Accumulate, h)
		for _, k := range []string{"k:1", "k:2"} {
			external.Tags = []byte("ns:shop," + k)
			f.apply(external)
		}
		for _, q := range []metric.Query{{Resource: "pods", Namespace: "ns", Object: "*"}, {Namespace: "shop"}} {
			_, err := ask(q)
			const want = `"t:p50": percentiles of summaries cannot be merged over label sets; pick one with a selector`
			if !errors.Is(err, metric.ErrInvalidQuery) || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			q.MatchLabels = func(l metric.Labels) bool { k, _ := l.Get("k"); return k == "1" }
			if p, err := ask(q); err != nil || print(p[0].Value) != "8" {
				t.Errorf("%v, %v, want 8", p, err)
			}
		}
		f.want("t:count", "a=1") // what adds up is answered
	})
}

// Against a model: what count and sum say is what came, whatever the way and the bounds.
func TestHistogramModel(t *testing.T) {
	for seed := range uint64(size(40, 12, 4)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			f, disk := newFixture(t).running(), newSaved()
			time.Sleep(2*time.Minute + 123*time.Millisecond)
			bounds := []float64{1, 2, 4, 8}
			life := histogram(bounds, make([]float64, 5), 0)
			lives := int64(1)
			f.apply(started(pushOf(metric.Accumulate, life), lives))
			count, sum := 0.0, 0.0
			for range 40 {
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
				fresh := histogram(bounds, []float64{0, float64(r.IntN(9)), float64(r.IntN(9)), 1, float64(r.IntN(3))}, float64(r.IntN(100)))
				count, sum = count+fresh.Count, sum+fresh.Sum
				switch r.IntN(6) {
				case 0:
					f.apply(pushOf(metric.Merge, fresh))
					continue
				case 1:
					f.push("t:3|ms|#pod:a,ns:ns")
					count, sum = count+1, sum+3
				case 2:
					disk.flush(f.Table, func(int) bool { return r.IntN(3) == 0 })
					f = disk.restore(t).running()
				case 3:
					if life.Count < 20 { // no less than what comes: the start has to be told
						lives++
					}
					life = histogram(bounds, make([]float64, 5), 0)
				}
				for i := range life.Counts {
					life.Counts[i] += fresh.Counts[i]
				}
				life = histogram(bounds, life.Counts, life.Sum+fresh.Sum)
				f.apply(started(pushOf(metric.Accumulate, life), lives))
			}
			if got := f.value("t:count"); got != count {
				t.Errorf("seed %d: count %v, want %v", seed, got, count)
			}
			if got := f.value("t:sum"); got != sum {
				t.Errorf("seed %d: sum %v, want %v", seed, got, sum)
			}
		})
	}
}

// Native histograms get buckets as values need them, and change them within a window: nothing is
// counted twice.
func TestHistogramBoundsThatGrow(t *testing.T) {
	start(t, func(f *fixture) {
		bounds, counts := []float64{1}, []float64{0, 0}
		f.apply(pushOf(metric.Accumulate, histogram(bounds, counts, 0)))
		for i := range 12 {
			bounds = append(bounds, float64(int(2)<<i))
			counts = append(slices.Insert(counts, len(counts)-1, 10), 0)[:len(bounds)+1]
			f.apply(pushOf(metric.Accumulate, histogram(bounds, counts, float64(i+1))))
			if got := f.value("t:count"); got != float64(10*(i+1)) {
				t.Fatalf("count %v, want %v", got, 10*(i+1))
			}
		}
		f.want("t:sum", "a=12")
		f.apply(pushOf(metric.Merge, histogram([]float64{1}, []float64{2, 0}, 0))) // a coarser one has no say
		if got, want := f.value("t:p50"), 60.8; math.Abs(got-want) > want*kind.RelativeError {
			t.Errorf("p50 %v, want about %v", got, want)
		}
	})
}

// Histograms, observations, readers, saving, deletion and expiry at once; run with -race.
func TestHistogramsConcurrently(t *testing.T) {
	c := DefaultConfig()
	c.Windows = []time.Duration{time.Second, time.Hour}
	table := New(c, describeByPod, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	var helpers, writers sync.WaitGroup
	helpers.Go(func() { table.Run(ctx) })
	helpers.Go(func() { saveAll(ctx, table) })
	helpers.Go(func() {
		for ctx.Err() == nil {
			for _, asked := range []string{"t", "t:p95:1s", "t:count", "gone:p95"} {
				table.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
			}
			table.Delete(podQuery("gone"))
		}
	})
	pushes := size(2000, 1000, 300)
	for n := range 3 {
		writers.Go(func() {
			w := table.NewWriter()
			defer w.Close()
			counts := make([]float64, 3)
			for i := range pushes {
				counts[i%3]++
				s := pushOf(metric.Accumulate, histogram([]float64{1, 2}, counts, float64(i)), fmt.Sprint("k:", n))
				w.Apply(s)
				s.Name = []byte("gone")
				w.Apply(s)
				w.Apply(sample("t:1|ms|#pod:a,ns:ns,k:0"))
				w.Quiesce()
			}
		})
	}
	writers.Wait()
	stop()
	helpers.Wait()
	f := &fixture{Table: table, t: t}
	if got, want := f.value("t:count:1h"), float64(3*(pushes-1)+3*pushes); got != want {
		t.Errorf("count %v, want %v", got, want)
	}
}

// Memory: what histograms take is accounted for before it is taken, and given back.
func TestA6Histograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes = 1 << 20
		f := newFixtureOf(t, c).running()
		time.Sleep(time.Minute)
		bounds, counts := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, make([]float64, 12)
		for range 90 {
			for i := range counts {
				counts[i] += float64(i)
			}
			f.apply(pushOf(metric.Accumulate, histogram(bounds, counts, 1)))
			time.Sleep(time.Second)
		}
		b := f.blocks.at[0].Load()
		timer := b.body(0).Timer
		b.history.Lock()
		bytes, weight, held := timer.BytesLocked(nil), timer.Weight(nil), f.BodyBytes.Load()
		b.history.Unlock()
		t.Logf("histogram of 12 buckets: %d bytes, accounted for %d", bytes, weight)
		if bytes > 6<<10 || weight < bytes || held != weight {
			t.Errorf("%d bytes, accounted for %d and %d; want at most 6 KiB", bytes, weight, held)
		}
		before := f.BodyBytes.Load()
		f.apply(pushOf(metric.Accumulate, histogram(bounds, counts, 1)))
		if got := f.BodyBytes.Load(); got != before {
			t.Errorf("the same buckets took %d bytes more", got-before)
		}
		f.BodyBytes.Add(c.MaxBytes)
		more := histogram(append(bounds, 20), append(counts, 0), 1)
		if r := f.w.Apply(pushOf(metric.Accumulate, more)); r != metric.OverLimit {
			t.Errorf("%s, want limit", r)
		}
		f.apply(pushOf(metric.Accumulate, histogram(bounds, counts, 1)))
		f.BodyBytes.Add(-c.MaxBytes)
		time.Sleep(10 * time.Minute)
		b.history.Lock()
		idle := timer.BytesLocked(nil)
		b.history.Unlock()
		f.Delete(podQuery("t"))
		time.Sleep(2 * time.Second)
		if got := f.BodyBytes.Load(); got != 0 || idle > 1024 {
			t.Errorf("%d bytes are held by nobody, %d by an idle one", got, idle)
		}
	})
}
