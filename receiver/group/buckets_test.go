package group

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

func TestClassicBuckets(t *testing.T) {
	var d feed
	h := d.ofHistogram(&exposition.Histogram{Count: 7, Sum: 3, Buckets: bucketsOf(math.Inf(-1), 1, .1, 2, 1, 5, math.Inf(1), 7)})
	if !slices.Equal(h.Bounds, []float64{.1, 1}) || !slices.Equal(h.Counts, []float64{2, 3, 2}) || h.Count != 7 || h.Sum != 3 || h.Check() != metric.Applied {
		t.Errorf("%+v", h)
	}
	h = d.ofHistogram(&exposition.Histogram{Count: 7, Buckets: bucketsOf(math.Inf(1), 7)})
	if len(h.Bounds) != 0 || h.Check() != metric.Applied {
		t.Errorf("a count alone: %+v", h)
	}
}

func TestNativeBuckets(t *testing.T) {
	var d feed
	n := &exposition.Native{Schema: 0, ZeroThreshold: .25, ZeroCount: 1,
		PositiveSpans: []exposition.Span{{Offset: 1, Length: 2}, {Offset: 1, Length: 1}}, PositiveCounts: []float64{2, 3, 4}, // (1,2] (2,4] (8,16]
		NegativeSpans: []exposition.Span{{Offset: 0, Length: 1}}, NegativeCounts: []float64{5}} // [-1,-0.5)
	h := d.ofHistogram(&exposition.Histogram{Count: 15, Native: n, Buckets: bucketsOf(math.Inf(1), 15)})
	if !slices.Equal(h.Bounds, []float64{-1, -.5, -.25, .25, 1, 2, 4, 8, 16}) || !slices.Equal(h.Counts, []float64{0, 5, 0, 1, 0, 2, 3, 0, 4, 0}) || h.Check() != metric.Applied {
		t.Errorf("%+v", h)
	}
	want := []NativeBucket{{1, -1, -.5, 5}, {3, -.25, .25, 1}, {0, 1, 2, 2}, {0, 2, 4, 3}, {0, 8, 16, 4}}
	if got := NativeBuckets(n); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Buckets that are too many for the table come merged: nothing is lost, and the bounds are of the finer scale too.
func TestNativeBucketsTooMany(t *testing.T) {
	n := &exposition.Native{Schema: 8, PositiveSpans: []exposition.Span{{Offset: -700, Length: 1024}, {Offset: 5, Length: 1000}}}
	total := 0.0
	for i := range 2024 {
		n.PositiveCounts = append(n.PositiveCounts, float64(i%7))
		total += float64(i % 7)
	}
	var d feed
	h := d.ofHistogram(&exposition.Histogram{Count: total, Native: n})
	if h.Check() != metric.Applied || len(h.Bounds) < 500 {
		t.Fatalf("%s, %d bounds", h.Check(), len(h.Bounds))
	}
	sum := 0.0
	for _, c := range h.Counts {
		sum += c
	}
	if sum != total {
		t.Errorf("%v observations, want %v", sum, total)
	}
	for _, b := range h.Bounds {
		if at := math.Log2(b) * 256; math.Abs(at-math.Round(at)) > 1e-6 {
			t.Errorf("bound %v is none of the finer scale", b)
		}
	}
}

func TestBoundsOfSchemas(t *testing.T) {
	for _, c := range []struct {
		index, schema int32
		want          float64
	}{{0, 0, 1}, {3, 0, 8}, {-2, 0, .25}, {1, 1, math.Sqrt2}, {-1, 1, 1 / math.Sqrt2}, {1, -1, 4}, {1, -4, 65536}, {-1, -4, 1.0 / 65536}, {256, 8, 2}, {math.MaxInt32, -4, math.Inf(1)}, {math.MinInt32, -4, 0}} {
		if got := bound(c.index, c.schema); math.Abs(got-c.want) > 1e-15*c.want {
			t.Errorf("bucket %d of schema %d ends at %v, want %v", c.index, c.schema, got, c.want)
		}
	}
}

// bucketsOf takes bounds and counts in turn.
func bucketsOf(numbers ...float64) (all []exposition.Bucket) {
	for i := 0; i < len(numbers); i += 2 {
		all = append(all, exposition.Bucket{UpperBound: numbers[i], Count: numbers[i+1]})
	}
	return all
}
