package exposition

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-metrics/sluice/metric"
)

// messages writes families as length-delimited io.prometheus.client.MetricFamily. The field numbers
// are those of client_model's metrics.proto.
type messages struct{ dst []byte }

// embed writes a message after its length. The length is known last: one byte is reserved, which
// mostly suffices.
func (w *messages) embed(fill func()) {
	w.dst = append(w.dst, 0)
	start := len(w.dst)
	fill()
	size := len(w.dst) - start
	var room [10]byte
	length := protowire.AppendVarint(room[:0], uint64(size))
	w.dst = append(w.dst, length[1:]...)
	copy(w.dst[start+len(length)-1:], w.dst[start:start+size])
	copy(w.dst[start-1:], length)
}

func (w *messages) message(field protowire.Number, fill func()) {
	w.dst = protowire.AppendTag(w.dst, field, protowire.BytesType)
	w.embed(fill)
}

func (w *messages) text(field protowire.Number, s string) {
	w.dst = protowire.AppendString(protowire.AppendTag(w.dst, field, protowire.BytesType), s)
}

func (w *messages) varint(field protowire.Number, v uint64) {
	w.dst = protowire.AppendVarint(protowire.AppendTag(w.dst, field, protowire.VarintType), v)
}

func (w *messages) double(field protowire.Number, v float64) {
	w.dst = protowire.AppendFixed64(protowire.AppendTag(w.dst, field, protowire.Fixed64Type), math.Float64bits(v))
}

// typeNumbers are the numbers of MetricType.
var typeNumbers = [...]uint64{CounterType: 0, GaugeType: 1, SummaryType: 2, UntypedType: 3, HistogramType: 4,
	GaugeHistogramType: 5}

func (w *messages) family(f *Family) {
	w.embed(func() {
		w.text(nameField, f.Name)
		if f.Help != "" {
			w.text(helpField, f.Help)
		}
		w.varint(typeField, typeNumbers[f.Type])
		for i := range f.Metrics {
			w.message(metricField, func() { w.metric(f.Type, &f.Metrics[i]) })
		}
	})
}

func (w *messages) metric(t Type, m *Metric) {
	for _, l := range m.Labels {
		w.message(1, func() { w.label(l) }) // label
	}
	switch {
	case m.Summary != nil:
		w.message(4, func() { w.summary(m.Summary); w.created(4, m) }) // summary
	case m.Histogram != nil:
		w.message(7, func() { w.histogram(m.Histogram); w.created(15, m) }) // histogram
	case t == GaugeType:
		w.message(2, func() { w.double(1, m.Value) }) // gauge, value
	case t == CounterType:
		w.message(3, func() { w.double(1, m.Value); w.created(3, m) }) // counter, value
	default:
		w.message(5, func() { w.double(1, m.Value) }) // untyped, value
	}
}

// created writes a created_timestamp.
func (w *messages) created(field protowire.Number, m *Metric) {
	if m.Created == 0 {
		return
	}
	w.message(field, func() {
		w.varint(1, uint64(m.Created/1e9)) // seconds
		w.varint(2, uint64(m.Created%1e9)) // nanos
	})
}

func (w *messages) label(l metric.Label) {
	w.text(1, l.Key)   // name
	w.text(2, l.Value) // value
}

// summary writes the count as a whole number: the message has no field for another.
func (w *messages) summary(s *Summary) {
	w.varint(1, uint64(s.Count)) // sample_count
	w.double(2, s.Sum)           // sample_sum
	for _, q := range s.Quantiles {
		w.message(3, func() { // quantile
			w.double(1, q.Quantile) // quantile
			w.double(2, q.Value)    // value
		})
	}
}

// histogram writes counts as whole numbers if all are whole, else as floats: the message has fields
// for either.
func (w *messages) histogram(h *Histogram) {
	whole := isWhole(h)
	w.count(1, 4, h.Count, whole) // sample_count, sample_count_float
	w.double(2, h.Sum)            // sample_sum
	if h.Native == nil || len(h.Buckets) > 1 || len(h.Buckets) == 1 &&
		h.Buckets[0].Count != h.Count { // else a bucket +Inf says nothing
		for _, b := range h.Buckets {
			w.message(3, func() { // bucket
				w.count(1, 4, b.Count, whole) // cumulative_count, cumulative_count_float
				w.double(2, b.UpperBound)     // upper_bound
			})
		}
	}
	if h.Native != nil {
		w.native(h.Native, whole)
	}
}

func (w *messages) native(n *Native, whole bool) {
	w.varint(5, protowire.EncodeZigZag(int64(n.Schema)))         // schema
	w.double(6, n.ZeroThreshold)                                 // zero_threshold
	w.count(7, 8, n.ZeroCount, whole)                            // zero_count, zero_count_float
	w.side(9, 10, 11, n.NegativeSpans, n.NegativeCounts, whole)  // negative_span, negative_delta, negative_count
	w.side(12, 13, 14, n.PositiveSpans, n.PositiveCounts, whole) // positive_span, positive_delta, positive_count
}

func (w *messages) side(span, delta, count protowire.Number, spans []Span, counts []float64, whole bool) {
	for _, s := range spans {
		w.message(span, func() {
			w.varint(1, protowire.EncodeZigZag(int64(s.Offset))) // offset
			w.varint(2, uint64(s.Length))                        // length
		})
	}
	before := int64(0)
	for _, c := range counts {
		if !whole {
			w.double(count, c)
			continue
		}
		w.varint(delta, protowire.EncodeZigZag(int64(c)-before))
		before = int64(c)
	}
}

func (w *messages) count(integer, float protowire.Number, v float64, whole bool) {
	if whole {
		w.varint(integer, uint64(v))
	} else {
		w.double(float, v)
	}
}

// isWhole reports whether all counts are whole numbers that a float64 holds exactly.
func isWhole(h *Histogram) bool {
	const exact = 1 << 53
	ok := func(v float64) bool { return v <= exact && v == math.Trunc(v) }
	whole := ok(h.Count)
	for _, b := range h.Buckets {
		whole = whole && ok(b.Count)
	}
	if n := h.Native; n != nil {
		whole = whole && ok(n.ZeroCount)
		for _, c := range n.PositiveCounts {
			whole = whole && ok(c)
		}
		for _, c := range n.NegativeCounts {
			whole = whole && ok(c)
		}
	}
	return whole
}
