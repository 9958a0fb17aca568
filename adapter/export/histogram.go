package export

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// histogram makes a native histogram of buckets. A scale other than 1 is that of milliseconds to
// seconds: the buckets move by the whole number of buckets that is nearest, so their bounds are off
// by up to half a bucket.
func histogram(b *metric.Buckets, scale float64) *exposition.Histogram {
	h := &exposition.Histogram{Count: b.Zero, Sum: scaled(b.Sum, scale)}
	shift := int32(0)
	if scale != 1 {
		shift = int32(math.Round(math.Log2(scale) * math.Exp2(float64(b.Schema))))
	}
	native := &exposition.Native{Schema: b.Schema, ZeroThreshold: b.ZeroThreshold * scale, ZeroCount: b.Zero}
	native.PositiveSpans, native.PositiveCounts = spans(b.Positive, shift, &h.Count)
	native.NegativeSpans, native.NegativeCounts = spans(b.Negative, shift, &h.Count)
	if len(native.PositiveSpans)+len(native.NegativeSpans) == 0 && native.ZeroCount == 0 {
		native.PositiveSpans = []exposition.Span{{}} // tells an empty native histogram from a classic one
	}
	h.Native = native
	h.Buckets = []exposition.Bucket{{UpperBound: math.Inf(1), Count: h.Count}}
	return h
}

// spans returns buckets in the form of the exposition, and adds their counts.
func spans(buckets []metric.Bucket, shift int32, count *float64) (spans []exposition.Span, counts []float64) {
	next := int32(0) // the index after the bucket before
	for i, one := range buckets {
		index := one.Index + shift
		if i == 0 || index != next {
			spans = append(spans, exposition.Span{Offset: index - next})
		}
		spans[len(spans)-1].Length++
		counts = append(counts, one.Count)
		*count += one.Count
		next = index + 1
	}
	return spans, counts
}
