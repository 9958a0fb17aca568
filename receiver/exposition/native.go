package exposition

import (
	"math"

	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

func (r *ProtobufReader) readSummary(family int, labels []metric.Label, in *dto.Summary) detail {
	m, isNew, d := r.compound(family, labels)
	switch {
	case d != noDetail:
		return d
	case !isNew:
		return sameSeries
	}
	m.position = r.position
	m.setCount(float64(in.GetSampleCount()))
	m.setSum(in.GetSampleSum())
	for _, q := range in.GetQuantile() {
		if d := r.addQuantile(m, q.GetQuantile(), q.GetValue()); d != noDetail {
			return d
		}
	}
	return noDetail
}

// readHistogram reads a histogram of integer or float counts. By the protobuf definition, a float
// count above 0 overrides an integer one. A histogram with neither buckets nor a count has no
// observations.
func (r *ProtobufReader) readHistogram(family int, labels []metric.Label, in *dto.Histogram) detail {
	m, isNew, d := r.compound(family, labels)
	switch {
	case d != noDetail:
		return d
	case !isNew:
		return sameSeries
	}
	m.position = r.position
	m.setSum(in.GetSampleSum())
	if in.SampleCount != nil || in.SampleCountFloat != nil || len(in.Bucket) == 0 {
		if d := m.setCount(override(in.GetSampleCount(), in.GetSampleCountFloat())); d != noDetail {
			return d
		}
	}
	for _, b := range in.GetBucket() {
		count := override(b.GetCumulativeCount(), b.GetCumulativeCountFloat())
		if d := r.addBucket(m, b.GetUpperBound(), count); d != noDetail {
			return d
		}
	}
	if !isNative(in) {
		return noDetail
	}
	m.native, d = r.readNative(in)
	return d
}

// override returns the float unless it is 0. NaN and negative numbers are left to the checks.
func override(integer uint64, float float64) float64 {
	if float != 0 {
		return float
	}
	return float64(integer)
}

// isNative reports whether a histogram is native. By metrics.proto, one without observations has a
// span of length 0.
func isNative(in *dto.Histogram) bool {
	return len(in.PositiveSpan) > 0 || len(in.NegativeSpan) > 0 || in.GetZeroThreshold() != 0 ||
		in.GetZeroCount() > 0 || in.GetZeroCountFloat() != 0 ||
		len(in.PositiveDelta) > 0 || len(in.NegativeDelta) > 0 || len(in.PositiveCount) > 0 || len(in.NegativeCount) > 0
}

func (r *ProtobufReader) readNative(in *dto.Histogram) (*Native, detail) {
	n := &Native{
		Schema:        in.GetSchema(),
		ZeroThreshold: in.GetZeroThreshold(),
		ZeroCount:     override(in.GetZeroCount(), in.GetZeroCountFloat()),
	}
	if n.Schema < -4 || n.Schema > 8 {
		return nil, badSchema
	}
	if !metric.IsCount(n.ZeroThreshold) || !metric.IsCount(n.ZeroCount) {
		return nil, badNative
	}
	var d detail
	if n.PositiveSpans, n.PositiveCounts, d = r.readSide(in.PositiveSpan, in.PositiveDelta,
		in.PositiveCount); d != noDetail {
		return nil, d
	}
	n.NegativeSpans, n.NegativeCounts, d = r.readSide(in.NegativeSpan, in.NegativeDelta, in.NegativeCount)
	return n, d
}

// readSide reads the buckets of one sign. The announced length of the spans is compared with the
// number of counts before memory is allocated.
func (r *ProtobufReader) readSide(in []*dto.BucketSpan, deltas []int64, floats []float64) ([]Span, []float64, detail) {
	if len(in) > r.options.MaxBuckets || len(deltas) > r.options.MaxBuckets || len(floats) > r.options.MaxBuckets {
		return nil, nil, manyBuckets
	}
	if len(deltas) > 0 && len(floats) > 0 {
		return nil, nil, badSpans
	}
	spans := make([]Span, len(in))
	for i, s := range in {
		spans[i] = Span{Offset: s.GetOffset(), Length: s.GetLength()}
	}
	if !buckets.SpansHold(spans, len(deltas)+len(floats)) {
		return nil, nil, badSpans
	}
	counts := make([]float64, len(deltas)+len(floats))
	copy(counts, floats)
	sum := int64(0)
	for i, delta := range deltas {
		sum += delta // an overflow is negative, or too large to be true
		counts[i] = float64(sum)
	}
	for i, count := range counts {
		if !metric.IsCount(count) {
			return nil, nil, badNative
		}
		counts[i] = math.Abs(count)
	}
	return spans, counts, noDetail
}
