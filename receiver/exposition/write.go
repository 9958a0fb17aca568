package exposition

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/sluice-metrics/sluice/metric"
)

// Format is the encoding of written families.
type Format uint8

// The formats. Only Protobuf expresses native histograms: the others write their classic buckets.
const (
	Text        Format = iota // text 0.0.4
	OpenMetrics               // OpenMetrics 1.0: AppendEnd must follow the last family
	Protobuf                  // length-delimited messages io.prometheus.client.MetricFamily
)

// ContentType is the format's value of the header Content-Type.
func (f Format) ContentType() string {
	switch f {
	case OpenMetrics:
		return "application/openmetrics-text; version=1.0.0; charset=utf-8"
	case Protobuf:
		return "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	}
	return "text/plain; version=0.0.4; charset=utf-8"
}

// Append appends families to dst. Their names must be distinct: no format may repeat a name.
//
// TextReader reads Text back as equal families, except for Histogram.Native. ProtobufReader reads
// Protobuf back as equal families, except for a fractional count of a summary.
func Append(dst []byte, format Format, families ...Family) []byte {
	if format == Protobuf {
		m := messages{dst: dst}
		for i := range families {
			m.family(&families[i])
		}
		return m.dst
	}
	w := writer{dst: dst, format: format}
	for i := range families {
		w.family(&families[i])
	}
	return w.dst
}

// AppendMore appends further metrics of the family that was appended last, so that a large family
// needs no memory as a whole. In Protobuf it is another message of the family's name: Prometheus
// reads message by message.
func AppendMore(dst []byte, format Format, f *Family) []byte {
	if format == Protobuf {
		return Append(dst, format, *f)
	}
	w := writer{dst: dst, format: format}
	for i := range f.Metrics {
		w.metric(f, &f.Metrics[i])
	}
	return w.dst
}

// AppendEnd appends the end of a page: OpenMetrics considers a text without it truncated.
func AppendEnd(dst []byte, format Format) []byte {
	if format == OpenMetrics {
		return append(dst, "# EOF\n"...)
	}
	return dst
}

type writer struct {
	dst    []byte
	format Format
}

func (w *writer) family(f *Family) {
	name, typeName := f.Name, f.Type.String()
	if f.Type == GaugeHistogramType { // the text format 0.0.4 has no other name for it
		typeName = HistogramType.String()
	}
	if w.format == OpenMetrics {
		name, typeName = openMetricsNames(f)
	}
	if f.Help != "" {
		w.dst = append(w.dst, "# HELP "...)
		w.name(name, "")
		w.dst = append(w.dst, ' ')
		w.escape(f.Help, w.format == OpenMetrics)
		w.dst = append(w.dst, '\n')
	}
	w.dst = append(w.dst, "# TYPE "...)
	w.name(name, "")
	w.dst = append(w.dst, ' ')
	w.dst = append(w.dst, typeName...)
	w.dst = append(w.dst, '\n')
	for i := range f.Metrics {
		w.metric(f, &f.Metrics[i])
	}
}

// openMetricsNames returns a family's name and type in OpenMetrics, where a counter "a" has the
// sample "a_total". A counter without that suffix gets the type unknown rather than another name,
// as in expfmt.
func openMetricsNames(f *Family) (name, typeName string) {
	switch f.Type {
	case CounterType:
		if base, ok := strings.CutSuffix(f.Name, "_total"); ok && base != "" {
			return base, "counter"
		}
		return f.Name, "unknown"
	case UntypedType:
		return f.Name, "unknown"
	}
	return f.Name, f.Type.String()
}

func (w *writer) metric(f *Family, m *Metric) {
	switch {
	case m.Summary != nil:
		for _, q := range m.Summary.Quantiles {
			w.series(f.Name, "", m.Labels, "quantile", q.Quantile)
			w.value(q.Value)
		}
		w.sumAndCount(f.Name, m.Labels, m.Summary.Sum, m.Summary.Count)
	case m.Histogram != nil:
		for _, b := range m.Histogram.Buckets {
			w.series(f.Name, "_bucket", m.Labels, "le", b.UpperBound)
			w.count(b.Count)
		}
		if f.Type == GaugeHistogramType && w.format == OpenMetrics {
			w.series(f.Name, "_gsum", m.Labels, "", 0)
			w.value(m.Histogram.Sum)
			w.series(f.Name, "_gcount", m.Labels, "", 0)
			w.count(m.Histogram.Count)
			break
		}
		w.sumAndCount(f.Name, m.Labels, m.Histogram.Sum, m.Histogram.Count)
	default:
		w.series(f.Name, "", m.Labels, "", 0)
		w.value(m.Value)
	}
}

func (w *writer) sumAndCount(name string, labels []metric.Label, sum, count float64) {
	w.series(name, "_sum", labels, "", 0)
	w.value(sum)
	w.series(name, "_count", labels, "", 0)
	w.count(count)
}

// series writes a sample up to its value. If key is not empty, it is one more label, with a number.
func (w *writer) series(name, suffix string, labels []metric.Label, key string, number float64) {
	legacy := isLegacy(name, letter|colon)
	if !legacy {
		w.dst = append(w.dst, '{')
	}
	w.name(name, suffix)
	separator := byte('{')
	if !legacy {
		separator = ','
	}
	for _, l := range labels {
		w.dst = append(w.dst, separator)
		w.key(l.Key)
		w.dst = append(w.dst, '=', '"')
		w.escape(l.Value, true)
		w.dst = append(w.dst, '"')
		separator = ','
	}
	if key != "" {
		w.dst = append(w.dst, separator)
		w.dst = append(w.dst, key...)
		w.dst = append(w.dst, '=', '"')
		w.float(number)
		w.dst = append(w.dst, '"')
		separator = ','
	}
	if separator == ',' {
		w.dst = append(w.dst, '}')
	}
	w.dst = append(w.dst, ' ')
}

func (w *writer) value(v float64) {
	w.float(v)
	w.dst = append(w.dst, '\n')
}

// count writes a number of observations, in OpenMetrics as an integer if possible.
func (w *writer) count(v float64) {
	if w.format == OpenMetrics && v == math.Trunc(v) && v < 1<<63 {
		w.dst = append(strconv.AppendInt(w.dst, int64(v), 10), '\n')
		return
	}
	w.value(v)
}

func (w *writer) float(v float64) {
	switch {
	case math.IsInf(v, 1):
		w.dst = append(w.dst, "+Inf"...)
		return
	case math.IsInf(v, -1) || v != v:
		w.dst = strconv.AppendFloat(w.dst, v, 'g', -1, 64)
		return
	}
	at := len(w.dst)
	w.dst = strconv.AppendFloat(w.dst, v, 'g', -1, 64)
	if w.format == OpenMetrics && !bytes.ContainsAny(w.dst[at:], ".e") {
		w.dst = append(w.dst, '.', '0')
	}
}

func (w *writer) name(name, suffix string) {
	if isLegacy(name, letter|colon) {
		w.dst = append(append(w.dst, name...), suffix...)
		return
	}
	w.dst = append(w.dst, '"')
	w.escape(name, true)
	w.dst = append(append(w.dst, suffix...), '"')
}

func (w *writer) key(key string) {
	if isLegacy(key, letter) {
		w.dst = append(w.dst, key...)
		return
	}
	w.dst = append(w.dst, '"')
	w.escape(key, true)
	w.dst = append(w.dst, '"')
}

// isLegacy reports whether a name needs no quotes.
func isLegacy(name string, first uint8) bool {
	if name == "" || class[name[0]]&first == 0 {
		return false
	}
	for i := 1; i < len(name); i++ {
		if class[name[i]]&(first|digit) == 0 {
			return false
		}
	}
	return true
}

func (w *writer) escape(text string, quotes bool) {
	clean := 0
	for i := 0; i < len(text); i++ {
		var escaped byte
		switch c := text[i]; {
		case c == '\\':
			escaped = '\\'
		case c == '\n':
			escaped = 'n'
		case c == '"' && quotes:
			escaped = '"'
		default:
			continue
		}
		w.dst = append(append(w.dst, text[clean:i]...), '\\', escaped)
		clean = i + 1
	}
	w.dst = append(w.dst, text[clean:]...)
}

// Escaping is how names with characters other than letters, digits, "_" and ":" are written:
// Prometheus before 3.0 can't read a page with such a name.
//
// Source: https://prometheus.io/docs/instrumenting/escaping_schemes/
type Escaping uint8

const (
	Underscores Escaping = iota // "_" replaces each other character
	AllowUTF8                   // names are unchanged
	Dots                        // "." becomes "_dot_", "_" becomes "__"
	Values                      // a prefix "U__", and each other character as its code point
)

var escapings = [...]struct {
	name   string
	scheme model.EscapingScheme
}{
	{model.EscapeUnderscores, model.UnderscoreEscaping}, {model.AllowUTF8, model.NoEscaping},
	{model.EscapeDots, model.DotsEscaping}, {model.EscapeValues, model.ValueEncodingEscaping},
}

func (e Escaping) String() string { return escapings[e].name }

// ParseEscaping parses the output of String.
func ParseEscaping(s string) (Escaping, bool) {
	for i := range escapings {
		if escapings[i].name == s {
			return Escaping(i), true
		}
	}
	return Underscores, false
}

// EscapeName escapes the name of a metric.
func EscapeName(name string, e Escaping) string {
	if e == AllowUTF8 || e == Underscores && isLegacy(name, letter|colon) {
		return name
	}
	return model.EscapeName(name, escapings[e].scheme)
}

// EscapeKey escapes the key of a label. It has no colon, which only a metric's name may have.
func EscapeKey(key string, e Escaping) string {
	if e == AllowUTF8 || e == Underscores && isLegacy(key, letter) {
		return key
	}
	return strings.ReplaceAll(model.EscapeName(key, escapings[e].scheme), ":", "_")
}

// Escape returns the family with escaped names, or the family itself if there is nothing to escape.
// If two labels of a metric get the same name, the first is kept.
func Escape(f *Family, e Escaping) *Family {
	if e == AllowUTF8 || e == Underscores && isPlain(f) {
		return f
	}
	escaped := *f
	escaped.Name = EscapeName(f.Name, e)
	escaped.Metrics = slices.Clone(f.Metrics)
	for i := range escaped.Metrics {
		m := &escaped.Metrics[i]
		m.Labels = escapeLabels(m.Labels, e)
	}
	return &escaped
}

func isPlain(f *Family) bool {
	for i := range f.Metrics {
		for _, l := range f.Metrics[i].Labels {
			if !isLegacy(l.Key, letter) {
				return false
			}
		}
	}
	return isLegacy(f.Name, letter|colon)
}

func escapeLabels(labels []metric.Label, e Escaping) []metric.Label {
	escaped := make([]metric.Label, 0, len(labels))
	for _, l := range labels {
		l.Key = EscapeKey(l.Key, e)
		if !slices.ContainsFunc(escaped, func(other metric.Label) bool { return other.Key == l.Key }) {
			escaped = append(escaped, l)
		}
	}
	return metric.SortLabels(escaped)
}
