package exposition

import (
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-metrics/sluice/metric"
)

// ProtobufReader reads length-delimited messages io.prometheus.client.MetricFamily. One goroutine
// keeps it and uses it for body after body.
//
// It splits a family by hand and decodes it metric by metric: Options.MaxMessage limits the part
// that is decoded at once, and the metrics are counted before they are decoded. Decoded metrics
// take up to 40 times their encoded size (an empty bucket is two bytes), which would be too much
// for a whole body.
type ProtobufReader struct {
	collector
	metric dto.Metric
	index  int // of the current metric in its family, from 1; 0: none
	labels []metric.Label
	fault  Fault
}

// NewProtobufReader makes a reader. The options must be valid.
func NewProtobufReader(o Options) *ProtobufReader {
	return &ProtobufReader{collector: collector{options: o}}
}

// Fields of io.prometheus.client.MetricFamily, as in client_model's metrics.proto.
const (
	nameField   = 1
	helpField   = 2
	typeField   = 3
	metricField = 4
)

// Read reads a body of less than 2 GiB: all of it, or a fault. The families are valid as long as
// those of TextReader.Read.
func (r *ProtobufReader) Read(body []byte) ([]Family, Fault) {
	r.reset()
	clear(r.labels)
	r.labels = r.labels[:0]
	r.index, r.fault = 0, Fault{}
	for len(body) > 0 {
		r.position++
		r.index = 0
		message, n := protowire.ConsumeBytes(body)
		if n < 0 {
			r.fail(cutShort)
			return nil, r.fault
		}
		if !r.readFamily(message) {
			return nil, r.fault
		}
		body = body[n:]
	}
	r.index = 0
	families, d := r.finish()
	if d != noDetail {
		r.fail(d)
		return nil, r.fault
	}
	return families, Fault{}
}

// fields calls take for each field of a message, with its bytes or number. A field that is unknown
// or has the wrong wire type is field 0, which decoders ignore, too.
func fields(message []byte, take func(field protowire.Number, bytes []byte, number uint64) bool) (ok, valid bool) {
	for len(message) > 0 {
		field, wire, n := protowire.ConsumeTag(message)
		if n < 0 || field > protowire.MaxValidNumber {
			return false, false
		}
		message = message[n:]
		var bytes []byte
		var number uint64
		switch {
		case wire == protowire.BytesType && field != typeField:
			bytes, n = protowire.ConsumeBytes(message)
		case wire == protowire.VarintType && field == typeField:
			number, n = protowire.ConsumeVarint(message)
		default:
			field, n = 0, protowire.ConsumeFieldValue(field, wire, message)
		}
		if n < 0 {
			return false, false
		}
		message = message[n:]
		if !take(field, bytes, number) {
			return false, true
		}
	}
	return true, true
}

// readFamily reads the message twice: fields come in any order, and metrics need the type.
func (r *ProtobufReader) readFamily(message []byte) bool {
	var name, text []byte
	var kind uint64 // without the field, protobuf's default: COUNTER, 0
	metrics := 0
	if _, valid := fields(message, func(field protowire.Number, bytes []byte, number uint64) bool {
		switch field {
		case nameField:
			name = bytes
		case helpField:
			text = bytes
		case typeField:
			kind = number
		case metricField:
			metrics++
		}
		return true
	}); !valid {
		return r.fail(badMessage)
	}
	family, ok := r.declare(string(name), text, kind, metrics)
	if !ok {
		return false
	}
	taken, _ := fields(message, func(field protowire.Number, bytes []byte, _ uint64) bool {
		return field != metricField || r.readMetric(family, bytes)
	})
	return taken
}

// declare adds a family. The number of metrics is checked before the first is decoded.
func (r *ProtobufReader) declare(name string, text []byte, kind uint64, metrics int) (int, bool) {
	t, ok := protobufType(kind)
	r.about = name
	switch {
	case !ok:
		return 0, r.fail(unknownType)
	case len(name) > r.options.MaxLabelBytes:
		return 0, r.fail(manyLabelBytes)
	case len(text) > r.options.MaxLine:
		return 0, r.fail(longHelp)
	case metrics > r.options.MaxMetrics-r.count:
		return 0, r.fail(manyMetrics)
	case r.family(name) >= 0:
		return 0, r.fail(secondFamily)
	}
	family, d := r.addFamily(name)
	if d != noDetail {
		return 0, r.fail(d)
	}
	r.families[family].Type = t
	r.families[family].Help = help(string(text))
	return family, true
}

func protobufType(kind uint64) (Type, bool) {
	switch dto.MetricType(int32(kind)) {
	case dto.MetricType_COUNTER:
		return CounterType, true
	case dto.MetricType_GAUGE:
		return GaugeType, true
	case dto.MetricType_SUMMARY:
		return SummaryType, true
	case dto.MetricType_UNTYPED:
		return UntypedType, true
	case dto.MetricType_HISTOGRAM:
		return HistogramType, true
	case dto.MetricType_GAUGE_HISTOGRAM:
		return GaugeHistogramType, true
	}
	return 0, false
}

func (r *ProtobufReader) readMetric(family int, message []byte) bool {
	r.index++
	if len(message) > r.options.MaxMessage {
		return r.fail(longMessage)
	}
	m := &r.metric
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(message, m); err != nil {
		return r.fail(badMessage)
	}
	if m.TimestampMs != nil {
		return r.fail(timestamp)
	}
	f := &r.families[family]
	labels, d := r.readLabels(f)
	if d != noDetail {
		return r.fail(d)
	}
	r.about = f.Name
	d = wrongType
	switch {
	case f.Type == CounterType && m.Counter != nil:
		d = r.addValue(family, labels, m.Counter.GetValue())
	case f.Type == GaugeType && m.Gauge != nil:
		d = r.addValue(family, labels, m.Gauge.GetValue())
	case f.Type == UntypedType && m.Untyped != nil:
		d = r.addValue(family, labels, m.Untyped.GetValue())
	case f.Type == SummaryType && m.Summary != nil:
		d = r.readSummary(family, labels, m.Summary)
	case f.Type.IsHistogram() && m.Histogram != nil:
		d = r.readHistogram(family, labels, m.Histogram)
	}
	return d == noDetail || r.fail(d)
}

// readLabels checks and returns the metric's labels.
func (r *ProtobufReader) readLabels(f *Family) ([]metric.Label, detail) {
	if len(r.metric.Label) > r.options.MaxLabels {
		return nil, manyLabels
	}
	start, size := len(r.labels), len(f.Name)
	for _, pair := range r.metric.Label {
		l := metric.Label{Key: pair.GetName(), Value: pair.GetValue()}
		r.about = l.Key
		if d := checkKey(l.Key); d != noDetail {
			return nil, d
		}
		if !utf8.ValidString(l.Value) {
			return nil, notUTF8
		}
		if f.Type == SummaryType && l.Key == "quantile" || f.Type.IsHistogram() && l.Key == "le" {
			return nil, ownLabel
		}
		for _, other := range r.labels[start:] {
			if other.Key == l.Key {
				return nil, sameKey
			}
		}
		size += len(l.Key) + len(l.Value)
		r.labels = append(r.labels, l)
	}
	if size > r.options.MaxLabelBytes {
		return nil, manyLabelBytes
	}
	return r.labels[start:len(r.labels):len(r.labels)], noDetail
}

func (r *ProtobufReader) fail(d detail) bool {
	r.fault = Fault{
		Reason: d.reason(), Family: r.position, Metric: r.index,
		detail: d, about: r.about, limit: r.options.limit(d),
	}
	if d == badBound || d == badQuantile {
		r.fault.text = "NaN" // the only value that is bad
	}
	return false
}
