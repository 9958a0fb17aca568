package remotewrite

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// Histogram is a native histogram. The buckets are borrowed until the next one is read.
type Histogram struct {
	Count, Sum         float64
	Timestamp, Started int64 // as in a Sample
	Gauge              bool  // it is not cumulative
	Custom             bool  // CustomBounds are the bounds of the positive buckets
	CustomBounds       []float64
	buckets.Native

	positive, negative side
}

// side is the buckets of one sign, as received.
type side struct {
	spans  []buckets.Span
	deltas []uint64
	counts []float64
}

func (s *side) reset() { s.spans, s.deltas, s.counts = s.spans[:0], s.deltas[:0], s.counts[:0] }

const customSchema = -53

// Stale reports whether the histogram is a stale marker, which the sum then is.
func (h *Histogram) Stale() bool { return isStale(h.Sum) }

// readHistogram reads a message Histogram of either version into h: the field numbers are the same.
func (r *Reader) readHistogram(h *Histogram, message []byte) detail {
	h.positive.reset()
	h.negative.reset()
	*h = Histogram{CustomBounds: h.CustomBounds[:0], positive: h.positive, negative: h.negative}
	for len(message) > 0 {
		f, rest, ok := cut(message)
		if !ok {
			return badMessage
		}
		if d := r.readHistogramField(h, &f); d != noDetail {
			return d
		}
		message = rest
	}
	if h.Stale() {
		return noDetail
	}
	return h.finish()
}

func (r *Reader) readHistogramField(h *Histogram, f *field) (d detail) {
	limit := r.options.MaxBuckets
	switch f.number {
	case 8, 9, 10:
		return h.negative.read(f, f.number-8, limit)
	case 11, 12, 13:
		return h.positive.read(f, f.number-11, limit)
	case 16:
		if f.wire == protowire.BytesType || f.wire == protowire.Fixed64Type {
			h.CustomBounds, d = appendDoubles(h.CustomBounds, f, limit)
		}
		return d
	}
	switch {
	case f.isVarint(1):
		h.Count = float64(f.value)
	case f.isDouble(2):
		h.Count = f.double()
	case f.isDouble(3):
		h.Sum = f.double()
	case f.isVarint(4):
		h.Schema = int32(protowire.DecodeZigZag(f.value & math.MaxUint32))
	case f.isDouble(5):
		h.ZeroThreshold = f.double()
	case f.isVarint(6):
		h.ZeroCount = float64(f.value)
	case f.isDouble(7):
		h.ZeroCount = f.double()
	case f.isVarint(14):
		const gauge = 3
		h.Gauge = int32(f.value) == gauge
	case f.isVarint(15):
		h.Timestamp = int64(f.value)
	case f.isVarint(17) && r.version == V2:
		h.Started = int64(f.value)
	}
	return noDetail
}

// read takes spans (0), deltas (1) or counts (2).
func (s *side) read(f *field, what protowire.Number, limit int) (d detail) {
	switch {
	case what == 0 && f.wire == protowire.BytesType:
		if len(s.spans) == limit {
			return manyBuckets
		}
		return s.readSpan(f.bytes)
	case what == 1 && (f.wire == protowire.BytesType || f.wire == protowire.VarintType):
		s.deltas, d = appendVarints(s.deltas, f, limit)
	case what == 2 && (f.wire == protowire.BytesType || f.wire == protowire.Fixed64Type):
		s.counts, d = appendDoubles(s.counts, f, limit)
	}
	return d
}

func (s *side) readSpan(message []byte) detail {
	span := buckets.Span{}
	for len(message) > 0 {
		f, rest, ok := cut(message)
		switch {
		case !ok:
			return badMessage
		case f.isVarint(1):
			span.Offset = int32(protowire.DecodeZigZag(f.value & math.MaxUint32))
		case f.isVarint(2):
			span.Length = uint32(f.value)
		}
		message = rest
	}
	s.spans = append(s.spans, span)
	return noDetail
}

// finish validates the histogram.
func (h *Histogram) finish() detail {
	if !metric.IsCount(h.Count) || !metric.IsCount(h.ZeroCount) || !metric.IsCount(h.ZeroThreshold) {
		return badCount
	}
	if d := h.positive.finish(); d != noDetail {
		return d
	}
	if d := h.negative.finish(); d != noDetail {
		return d
	}
	h.PositiveSpans, h.PositiveCounts = h.positive.spans, h.positive.counts
	h.NegativeSpans, h.NegativeCounts = h.negative.spans, h.negative.counts
	h.Custom = h.Schema == customSchema
	switch {
	case h.Custom && (len(h.negative.counts) > 0 || h.ZeroCount > 0 || !metric.Increasing(h.CustomBounds)):
		return badCustom
	case !h.Custom && (h.Schema < -4 || h.Schema > 8):
		return badSchema
	}
	return noDetail
}

// addsUp compares the buckets with the count, as Prometheus does. Observations of NaN are in the
// count only, and make the sum NaN.
func (h *Histogram) addsUp() bool {
	sum := h.ZeroCount
	for _, side := range [...][]float64{h.PositiveCounts, h.NegativeCounts} {
		for _, n := range side {
			sum += n
		}
	}
	rounding := 1e-9 * h.Count // of counts that are floats
	return sum <= h.Count+rounding && (math.IsNaN(h.Sum) || sum >= h.Count-rounding)
}

// finish converts deltas to counts, and compares them with the spans before memory is allocated.
func (s *side) finish() detail {
	if len(s.deltas) > 0 && len(s.counts) > 0 {
		return badSpans
	}
	sum := int64(0)
	for _, delta := range s.deltas {
		sum += protowire.DecodeZigZag(delta) // an overflow is negative, or too large to be true
		s.counts = append(s.counts, float64(sum))
	}
	if !buckets.SpansHold(s.spans, len(s.counts)) {
		return badSpans
	}
	for _, n := range s.counts {
		if !metric.IsCount(n) {
			return badCount
		}
	}
	return noDetail
}
