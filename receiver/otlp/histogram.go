package otlp

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// maxBuckets limits the buckets of each sign of an exponential histogram; SDKs have 160.
const maxBuckets = 4096

// readHistogram reads buckets with explicit bounds, which are not cumulative.
func (r *Reader) readHistogram(p pmetric.HistogramDataPoint) {
	if !begin(r, p) {
		return
	}
	bounds, counts := p.ExplicitBounds(), p.BucketCounts()
	if bounds.Len() > metric.MaxBounds || counts.Len() > metric.MaxBounds+1 {
		r.fail(metric.TooLong, "%d buckets; must be at most %d", counts.Len(), metric.MaxBounds+1)
		return
	}
	r.buckets.Reset()
	for i := range bounds.Len() {
		r.buckets.Bounds = append(r.buckets.Bounds, bounds.At(i))
	}
	total := uint64(0)
	for i := range counts.Len() {
		r.buckets.Counts = append(r.buckets.Counts, float64(counts.At(i)))
		total += counts.At(i)
	}
	if counts.Len() != bounds.Len()+1 { // only a count and a sum, or invalid: Check decides
		total = p.Count()
	}
	if r.addsUp(total, p.Count()) {
		r.fillHistogram(p)
	}
}

// readExponential reads buckets of exponential width.
func (r *Reader) readExponential(p pmetric.ExponentialHistogramDataPoint) {
	if !begin(r, p) {
		return
	}
	n := &r.native
	n.Schema, n.ZeroThreshold, n.ZeroCount = p.Scale(), p.ZeroThreshold(), float64(p.ZeroCount())
	if !(n.ZeroThreshold >= 0 && n.ZeroThreshold <= math.MaxFloat64) {
		r.fail(metric.BadValue, "the zero threshold is %v", n.ZeroThreshold)
		return
	}
	if !r.readSide(&n.PositiveSpans, &n.PositiveCounts, p.Positive()) ||
		!r.readSide(&n.NegativeSpans, &n.NegativeCounts, p.Negative()) {
		return
	}
	if !r.addsUp(p.ZeroCount()+totalOf(p.Positive())+totalOf(p.Negative()), p.Count()) {
		return
	}
	if !r.buckets.SetNative(n) {
		r.fail(metric.TooLong, "more than %d buckets at any scale", metric.MaxBounds)
		return
	}
	r.fillHistogram(p)
}

func totalOf(in pmetric.ExponentialHistogramDataPointBuckets) (total uint64) {
	for _, n := range in.BucketCounts().All() {
		total += n
	}
	return total
}

// addsUp checks that the count is the sum of the buckets (metrics.proto, HistogramDataPoint.count).
func (r *Reader) addsUp(total, count uint64) bool {
	return total == count || r.fail(metric.BadValue, "the buckets add up to %d, but the count is %d", total, count)
}

// readSide reads the buckets of one sign. Bucket i of OTLP is bucket i+1 of a native histogram.
func (r *Reader) readSide(spans *[]buckets.Span, counts *[]float64,
	in pmetric.ExponentialHistogramDataPointBuckets) bool {
	all := in.BucketCounts()
	*spans, *counts = (*spans)[:0], (*counts)[:0]
	switch {
	case all.Len() > maxBuckets:
		return r.fail(metric.TooLong, "%d buckets of one sign; must be at most %d", all.Len(), maxBuckets)
	case all.Len() == 0:
		return true
	case int64(in.Offset())+int64(all.Len()) >= math.MaxInt32:
		return r.fail(metric.BadValue, "buckets begin at index %d", in.Offset())
	}
	*spans = append(*spans, buckets.Span{Offset: in.Offset() + 1, Length: uint32(all.Len())})
	for i := range all.Len() {
		*counts = append(*counts, float64(all.At(i)))
	}
	return true
}

// aggregates are the fields that both histograms have besides buckets.
type aggregates interface {
	Count() uint64
	HasSum() bool
	Sum() float64
	HasMin() bool
	Min() float64
	HasMax() bool
	Max() float64
}

// fillHistogram makes the sample's histogram from the buckets.
func (r *Reader) fillHistogram(p aggregates) {
	h, sum := &r.histogram, math.NaN()
	if p.HasSum() {
		sum = p.Sum()
	}
	r.buckets.Fill(h, float64(p.Count()), sum)
	if p.HasMin() {
		h.Min = p.Min()
	}
	if p.HasMax() {
		h.Max = p.Max()
	}
	r.setHistogram(h)
}

// setHistogram sets the sample's histogram, if it is valid.
func (r *Reader) setHistogram(h *metric.Histogram) {
	switch reason := h.Check(); reason {
	case metric.Applied:
		r.Sample.Histogram = h
	case metric.Malformed:
		r.fail(reason, "%d bounds with %d counts; must be one count more than bounds", len(h.Bounds), len(h.Counts))
	case metric.BadValue:
		r.fail(reason, "the bounds are not finite and strictly increasing")
	default:
		r.fail(reason, "too many buckets or quantiles; must be at most %d and %d", metric.MaxBounds, metric.MaxQuantiles)
	}
}

// readSummary reads quantiles that the client calculated.
func (r *Reader) readSummary(p pmetric.SummaryDataPoint) {
	if !begin(r, p) {
		return
	}
	all := p.QuantileValues()
	if all.Len() > metric.MaxQuantiles {
		r.fail(metric.TooLong, "%d quantiles; must be at most %d", all.Len(), metric.MaxQuantiles)
		return
	}
	h := &r.histogram
	*h = metric.Histogram{Count: float64(p.Count()), Sum: p.Sum(), Min: math.NaN(), Max: math.NaN(),
		Quantiles: h.Quantiles[:0]}
	for i := range all.Len() {
		q := all.At(i)
		if !(q.Quantile() >= 0 && q.Quantile() <= 1) {
			r.fail(metric.BadValue, "quantile is %v; must be from 0 to 1", q.Quantile())
			return
		}
		h.Quantiles = append(h.Quantiles, metric.Quantile{Q: q.Quantile(), Value: q.Value()})
	}
	r.setHistogram(h)
}
