package buckets

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// filled is the histogram that the table takes.
func filled(b *Builder, count, sum float64) *metric.Histogram {
	var h metric.Histogram
	b.Fill(&h, count, sum)
	return &h
}

func TestClassic(t *testing.T) {
	var b Builder
	b.SetClassic(bucketsOf(math.Inf(-1), 1, .1, 2, 1, 5, math.Inf(1), 7), 7)
	h := filled(&b, 7, 3)
	if !slices.Equal(h.Bounds, []float64{.1, 1}) || !slices.Equal(h.Counts, []float64{2, 3, 2}) || h.Count != 7 || h.Sum != 3 || h.Check() != metric.Applied {
		t.Errorf("%+v", h)
	}
	b.SetClassic(bucketsOf(math.Inf(1), 7), 7)
	if h = filled(&b, 7, 3); len(h.Bounds) != 0 || h.Check() != metric.Applied {
		t.Errorf("a count alone: %+v", h)
	}
}

func TestCustom(t *testing.T) {
	var b Builder
	bounds := []float64{1, 2, 3, 4}
	for _, c := range []struct {
		spans  []Span
		counts []float64
		want   []float64 // nil: refused
	}{
		{[]Span{{1, 2}, {1, 1}}, []float64{5, 6, 7}, []float64{0, 5, 6, 0, 7}},
		{nil, nil, []float64{0, 0, 0, 0, 0}},
		{[]Span{{0, 5}}, []float64{1, 2, 3, 4, 5}, []float64{1, 2, 3, 4, 5}},
		{[]Span{{0, 6}}, []float64{1, 2, 3, 4, 5, 6}, nil},
		{[]Span{{-1, 1}}, []float64{1}, nil},
		{[]Span{{0, 1}, {-1, 1}}, []float64{1}, nil},
		{[]Span{{math.MaxInt32, math.MaxUint32}}, []float64{1}, nil},
		{[]Span{{0, 1}}, []float64{1, 2}, nil},
	} {
		ok := b.SetCustom(&Custom{bounds, c.spans, c.counts})
		if ok != (c.want != nil) || ok && !slices.Equal(b.Counts, c.want) {
			t.Errorf("%v of %v: %v %v, want %v", c.spans, c.counts, ok, b.Counts, c.want)
		}
	}
}

func TestNative(t *testing.T) {
	var b Builder
	n := &Native{Schema: 0, ZeroThreshold: .25, ZeroCount: 1,
		PositiveSpans: []Span{{Offset: 1, Length: 2}, {Offset: 1, Length: 1}}, PositiveCounts: []float64{2, 3, 4}, // (1,2] (2,4] (8,16]
		NegativeSpans: []Span{{Offset: 0, Length: 1}}, NegativeCounts: []float64{5}} // [-1,-0.5)
	if !b.SetNative(n) {
		t.Fatal("refused")
	}
	h := filled(&b, 15, 0)
	if !slices.Equal(h.Bounds, []float64{-1, -.5, -.25, .25, 1, 2, 4, 8, 16}) || !slices.Equal(h.Counts, []float64{0, 5, 0, 1, 0, 2, 3, 0, 4, 0}) || h.Check() != metric.Applied {
		t.Errorf("%+v", h)
	}
	want := []NativeBucket{{1, -1, -.5, 5}, {3, -.25, .25, 1}, {0, 1, 2, 2}, {0, 2, 4, 3}, {0, 8, 16, 4}}
	if got := NativeBuckets(n); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Too many buckets for the table are merged: no count is lost, and the coarser bounds are bounds
// of the finer scale.
func TestNativeTooMany(t *testing.T) {
	n := &Native{Schema: 8, PositiveSpans: []Span{{Offset: -700, Length: 1024}, {Offset: 5, Length: 1000}}}
	total := 0.0
	for i := range 2024 {
		n.PositiveCounts = append(n.PositiveCounts, float64(i%7))
		total += float64(i % 7)
	}
	var b Builder
	b.SetNative(n)
	if check := filled(&b, total, 0).Check(); check != metric.Applied || len(b.Bounds) < 500 {
		t.Fatalf("%s, %d bounds", check, len(b.Bounds))
	}
	if got := sum(b.Counts); got != total {
		t.Errorf("%v observations, want %v", got, total)
	}
	for _, v := range b.Bounds {
		if at := math.Log2(v) * 256; math.Abs(at-math.Round(at)) > 1e-6 {
			t.Errorf("bound %v is none of the finer scale", v)
		}
	}
}

// The buckets are the table's, and hold the client's counts, whatever scale and indices it sends.
func TestNativeOfAnySchema(t *testing.T) {
	for _, schema := range []int32{math.MinInt32, -100, -32, -11, -10, -4, 0, 8, 20, 21, 31, 63, 64, math.MaxInt32} {
		for _, offset := range []int32{math.MinInt32, -5000, -1, 0, 1, 5000, math.MaxInt32 - 100} {
			n := &Native{Schema: schema, ZeroCount: 1,
				PositiveSpans: []Span{{offset, 100}}, PositiveCounts: slices.Repeat([]float64{1}, 100),
				NegativeSpans: []Span{{offset, 100}}, NegativeCounts: slices.Repeat([]float64{1}, 100)}
			var b Builder
			if ok, check := b.SetNative(n), filled(&b, 201, 0).Check(); !ok || check != metric.Applied || sum(b.Counts) != 201 {
				t.Errorf("schema %d from %d: %v %s, %v observations in %v", schema, offset, ok, check, sum(b.Counts), b.Bounds)
			}
		}
	}
}

func TestBoundsOfSchemas(t *testing.T) {
	for _, c := range []struct {
		index  int64
		schema int32
		want   float64
	}{{0, 0, 1}, {3, 0, 8}, {-2, 0, .25}, {1, 1, math.Sqrt2}, {-1, 1, 1 / math.Sqrt2}, {1, -1, 4}, {1, -4, 65536}, {-1, -4, 1.0 / 65536}, {256, 8, 2}, {1 << 20, 20, 2}, {math.MaxInt32, -4, math.Inf(1)}, {math.MinInt32, -4, 0}} {
		if got := bound(c.index, c.schema); math.Abs(got-c.want) > 1e-15*c.want {
			t.Errorf("bucket %d of schema %d ends at %v, want %v", c.index, c.schema, got, c.want)
		}
	}
}

// bucketsOf takes bounds and counts in turn.
func bucketsOf(numbers ...float64) (all []Bucket) {
	for i := 0; i < len(numbers); i += 2 {
		all = append(all, Bucket{UpperBound: numbers[i], Count: numbers[i+1]})
	}
	return all
}

func sum(all []float64) (n float64) {
	for _, v := range all {
		n += v
	}
	return n
}
