package otlp

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// wrap puts a message into fields of others, from the innermost outwards.
func wrap(b []byte, fields ...protowire.Number) []byte {
	for _, n := range fields {
		b = protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	return b
}

// toMetric are the fields from a metric to the request.
var toMetric = []protowire.Number{2, 2, 1}

func of(path ...protowire.Number) []protowire.Number { return append(path, toMetric...) }

// hostile are bodies that take much more memory once they are decoded.
func hostile(size int) map[string][]byte {
	many := func(piece []byte) []byte { return bytes.Repeat(piece, max(1, size/len(piece))) }
	empty := func(n protowire.Number) []byte { return wrap(nil, n) }
	attributes := wrap(many(wrap(wrap([]byte{0x10, 1}, 2), 7)), 1)
	return map[string][]byte{
		"resources":            many(empty(1)),
		"scopes":               wrap(many(empty(2)), 1),
		"metrics":              wrap(many(empty(2)), 2, 1),
		"totals of two scopes": wrap(slices.Concat(wrap(nil, 2), wrap(totals(size), 2)), 1),
		"types of a metric":    wrap(many(empty(9)), toMetric...),
		"numbers":              wrap(many(empty(1)), of(5)...),
		"numbers with a value": wrap(many(wrap([]byte{0x31, 1, 0, 0, 0, 0, 0, 0, 0}, 1)), of(7)...),
		"values of a number":   wrap(many([]byte{0x31, 1, 0, 0, 0, 0, 0, 0, 0}), of(1, 7)...),
		"histograms":           wrap(many(empty(1)), of(9)...),
		"exponentials":         wrap(many(empty(1)), of(10)...),
		"summaries":            wrap(many(empty(1)), of(11)...),
		"quantiles":            wrap(many(empty(6)), of(1, 11)...),
		"attributes":           wrap(attributes, of(5)...),
		"empty attributes":     wrap(many(empty(7)), of(1, 5)...),
		"exemplars":            wrap(many(empty(5)), of(1, 5)...),
		"values of exemplars":  wrap(many(wrap([]byte{0x31, 1, 0, 0, 0, 0, 0, 0, 0}, 5)), of(1, 5)...),
		"resource attributes":  wrap(many(empty(1)), 1, 1),
		"entities":             wrap(many(empty(3)), 1, 1),
		"keys of entities":     wrap(many(empty(3)), 3, 1, 1),
		"scope attributes":     wrap(many(empty(3)), 1, 2, 1),
		"metadata":             wrap(many(empty(12)), toMetric...),
		"dense buckets":        wrap(many([]byte{1}), of(2, 8, 1, 10)...),
		"buckets one by one":   wrap(many([]byte{0x10, 1}), of(8, 1, 10)...),
		"bounds":               wrap(many([]byte{0, 0, 0, 0, 0, 0, 0, 0}), of(7, 1, 9)...),
		"bounds one by one":    wrap(many([]byte{0x39, 0, 0, 0, 0, 0, 0, 0, 0}), of(1, 9)...),
		"elements of an array": wrap(many(empty(1)), of(5, 2, 7, 1, 5)...),
		"pairs of a map":       wrap(many(empty(1)), of(6, 2, 7, 1, 5)...),
		"arrays in an array":   wrap(many(wrap(nil, 5, 1)), of(5, 2, 7, 1, 5)...),
		"bytes":                wrap(many(wrap([]byte{1}, 7, 1)), of(5, 2, 7, 1, 5)...),
		"a name":               wrap(many([]byte{'a'}), append([]protowire.Number{1}, toMetric...)...),
		"nothing":              {},
	}
}

// totals are metrics with names of their own, each a cumulative sum without a point.
func totals(size int) (all []byte) {
	for n := 0; len(all) < size; n++ {
		name := wrap([]byte(strconv.FormatInt(int64(n), 36)), 1)
		all = append(all, wrap(append(name, wrap([]byte{0x10, 2, 0x18, 1}, 7)...), 2)...)
	}
	return all
}

func hostileJSON(size int) map[string][]byte {
	in := func(before, piece, after string) []byte {
		n := max(1, size/(len(piece)+1))
		return []byte(before + strings.Repeat(piece+",", n-1) + piece + after)
	}
	metric := func(before, piece, after string) []byte {
		return in(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{`+before, piece, after+`}]}]}]}`)
	}
	return map[string][]byte{
		"resources":               in(`{"resourceMetrics":[`, `{}`, `]}`),
		"numbers":                 metric(`"gauge":{"dataPoints":[`, `{}`, `]}`),
		"integers":                metric(`"gauge":{"dataPoints":[`, `{"asInt":1}`, `]}`),
		"exponentials":            metric(`"exponentialHistogram":{"dataPoints":[`, `{}`, `]}`),
		"nulls":                   metric(`"exponentialHistogram":{"dataPoints":[`, `null`, `]}`),
		"attributes":              metric(`"gauge":{"dataPoints":[{"attributes":[`, `{}`, `]}]}`),
		"exemplars":               metric(`"gauge":{"dataPoints":[{"exemplars":[`, `{"asInt":1}`, `]}]}`),
		"attributes of exemplars": metric(`"gauge":{"dataPoints":[{"exemplars":[{"filteredAttributes":[`, `{"value":{"bytesValue":"AA=="}}`, `]}]}]}`),
		"elements":                metric(`"gauge":{"dataPoints":[{"attributes":[{"value":{"arrayValue":{"values":[`, `{"arrayValue":{}}`, `]}}}]}]}`),
		"pairs":                   metric(`"gauge":{"dataPoints":[{"attributes":[{"value":{"kvlistValue":{"values":[`, `{}`, `]}}}]}]}`),
		"quantiles":               metric(`"summary":{"dataPoints":[{"quantileValues":[`, `null`, `]}]}`),
		"maps":                    metric(`"gauge":{"dataPoints":[{"attributes":[`, `{"value":{"kvlistValue":{}}}`, `]}]}`),
		"counts":                  metric(`"histogram":{"dataPoints":[{"bucketCounts":[`, `1`, `]}]}`),
		"bounds":                  metric(`"histogram":{"dataPoints":[{"explicitBounds":[`, `1`, `]}]}`),
		"unknown":                 in(`{"x":[`, `1`, `]}`),
		"members":                 in(`{"x":{`, `"x":1`, `}}`),
		"keys":                    metric(`"gauge":{"dataPoints":[{`, `"asInt":1`, `}]}`),
		"a string":                []byte(`{"x":"` + strings.Repeat(`\"{[,`, size/5) + `"}`),
	}
}

// A value within a value within a value would have the decoder call itself until the stack ends.
func TestDepth(t *testing.T) {
	value := []byte(nil)
	for range maxDepth + 1 {
		value = wrap(value, 1, 5)
	}
	for name, body := range map[string][]byte{
		"protobuf": wrap(value, of(2, 7, 1, 5)...),
		"JSON":     []byte(`{"resourceMetrics":` + strings.Repeat(`[`, 1_000_000)),
		"objects":  []byte(strings.Repeat(`{"x":`, 1_000_000)),
	} {
		e := JSON
		if name == "protobuf" {
			e = Protobuf
		}
		if _, err := DecodedSize(body, e); !errors.Is(err, errDepth) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for depth := range maxDepth + 1 {
		value := []byte(nil)
		for range depth {
			value = wrap(value, 1, 5)
		}
		if _, err := DecodedSize(wrap(value, of(2, 7, 1, 5)...), Protobuf); err != nil {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}

func TestWhatIsNoRequest(t *testing.T) {
	for body, e := range map[string]Encoding{
		"\x0a\x05":                 Protobuf, // cut short
		"\x00":                     Protobuf,
		"\xff\xff\xff\xff":         Protobuf,
		"{}":                       Protobuf,
		"":                         JSON,
		"{":                        JSON,
		"[]":                       JSON,
		"{} {}":                    JSON,
		`{"resourceMetrics":[1]}`:  JSON,
		`{"resourceMetrics":{}}`:   JSON,
		`{"resourceMetrics":[{]}}`: JSON,
		`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"sum":{"dataPoints":[{"asInt":"x"}]}}]}]}]}`: JSON,
		"]]]]": JSON,
	} {
		_, err := DecodedSize([]byte(body), e)
		if err == nil {
			_, err = Decode([]byte(body), e)
		}
		if err == nil {
			t.Errorf("%q was taken as %s", body, e.ContentType())
		}
	}
	for _, body := range []string{"{}", "null", " {\"resourceMetrics\":[]}\n", `{"unknown":{"a":[1]}}`} {
		if all, err := Decode([]byte(body), JSON); err != nil || all.DataPointCount() != 0 {
			t.Errorf("%q: %v", body, err)
		}
	}
}
