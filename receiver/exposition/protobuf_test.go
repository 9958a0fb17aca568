package exposition

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-metrics/sluice/metric"
)

// delimited writes families, each given as protobuf's text form, as a client does.
func delimited(t testing.TB, families ...string) []byte {
	var body bytes.Buffer
	for _, text := range families {
		f := &dto.MetricFamily{}
		if err := (prototext.UnmarshalOptions{AllowPartial: true}).Unmarshal([]byte(text), f); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := protodelim.MarshalTo(&body, f); err != nil {
			t.Fatal(err)
		}
	}
	return body.Bytes()
}

func histogram(fields string) []string {
	return []string{`name: "h" type: HISTOGRAM metric { histogram { ` + fields + ` } }`}
}

var legalMessages = []struct {
	name     string
	families []string
	want     string
}{
	{"nothing", nil, ""},
	{"counter", []string{`name: "a" help: "what" type: COUNTER metric { label { name: "b" value: "c" } counter { value: 1 } }`}, `counter a ("what"): b=c 1`},
	{"gauge and untyped", []string{`name: "a" type: GAUGE metric { gauge { value: -1.5 } }`, `name: "b" type: UNTYPED metric { untyped { value: nan } }`},
		"gauge a: -1.5\nuntyped b: NaN"},
	{"no type is a counter", []string{`name: "a" metric { counter {} }`}, "counter a: 0"},
	{"counter negative", []string{`name: "a" metric { counter { value: -1 } }`}, "counter a: -1"},
	{"no metrics is no family", []string{`name: "a" type: GAUGE`}, ""},
	{"several metrics", []string{`name: "a" type: GAUGE metric { label { name: "b" value: "1" } gauge { value: 1 } } metric { label { name: "b" } gauge { value: 2 } }`},
		`gauge a: b=1 1; b="" 2`},
	{"UTF-8 names", []string{`name: "my.name" type: GAUGE metric { label { name: "a.b" value: "\000" } gauge { value: 1 } }`}, `gauge "my.name": "a.b"="\x00" 1`},
	{"help of any bytes", []string{`name: "a" help: " \t x\r" type: GAUGE metric { gauge {} }`}, `gauge a ("x\r"): 0`},
	{"summary", []string{`name: "s" type: SUMMARY metric { summary { sample_count: 3 sample_sum: 4.5 quantile { quantile: 0.9 value: 2 } quantile { quantile: 0.5 value: nan } } }`},
		"summary s: sum 4.5 count 3 q0.5:NaN q0.9:2"},
	{"histogram", histogram(`sample_count: 3 sample_sum: 4.5 bucket { cumulative_count: 1 upper_bound: 0.5 } bucket { cumulative_count: 3 upper_bound: inf }`),
		"histogram h: sum 4.5 count 3 le0.5:1 le+Inf:3"},
	{"histogram without bucket +Inf", histogram(`sample_count: 3 bucket { cumulative_count: 1 upper_bound: 0.5 }`), "histogram h: sum 0 count 3 le0.5:1 le+Inf:3"},
	{"histogram without count", histogram(`bucket { cumulative_count: 1 upper_bound: inf }`), "histogram h: sum 0 count 1 le+Inf:1"},
	{"histogram of nothing", histogram(``), "histogram h: sum 0 count 0 le+Inf:0"},
	{"histogram of floats", histogram(`sample_count: 9 sample_count_float: 2.5 bucket { cumulative_count: 9 cumulative_count_float: 0.5 upper_bound: 1 }`),
		"histogram h: sum 0 count 2.5 le1:0.5 le+Inf:2.5"},
	{"gauge histogram", []string{`name: "h" type: GAUGE_HISTOGRAM metric { histogram { sample_count: 1 } }`}, "gaugehistogram h: sum 0 count 1 le+Inf:1"},
	{"created timestamps of counters and summaries are ignored", []string{
		`name: "a" type: COUNTER metric { counter { value: 3 created_timestamp { seconds: 5 } } }`,
		`name: "s" type: SUMMARY metric { summary { sample_count: 2 sample_sum: 4 created_timestamp { seconds: 5 } } }`,
	}, "counter a: 3\nsummary s: sum 4 count 2"},
	{"exemplars and created timestamps are ignored", histogram(`sample_count: 1 created_timestamp { seconds: 5 } exemplars { value: 3 }
		bucket { cumulative_count: 1 upper_bound: 1 exemplar { label { name: "trace" value: "x" } value: 0.5 timestamp { seconds: 1 } } }`),
		"histogram h: sum 0 count 1 le1:1 le+Inf:1"},
	{"native histogram of integers", histogram(`sample_count: 21 sample_sum: 8 schema: 3 zero_threshold: 0.001 zero_count: 2
		positive_span { offset: -2 length: 2 } positive_span { offset: 1 length: 1 } positive_delta: [1, 2, -1]
		negative_span { offset: 0 length: 2 } negative_delta: [5, 2]`),
		"histogram h: sum 8 count 21 le+Inf:21 native {Schema:3 ZeroThreshold:0.001 ZeroCount:2 PositiveSpans:[{Offset:-2 Length:2} {Offset:1 Length:1}] " +
			"NegativeSpans:[{Offset:0 Length:2}] PositiveCounts:[1 3 2] NegativeCounts:[5 7]}"},
	{"native histogram of floats", histogram(`sample_count_float: 4.5 schema: -4 zero_count_float: 0.5 positive_span { length: 2 } positive_count: [1.5, 2.5]`),
		"histogram h: sum 0 count 4.5 le+Inf:4.5 native {Schema:-4 ZeroThreshold:0 ZeroCount:0.5 PositiveSpans:[{Offset:0 Length:2}] NegativeSpans:[] PositiveCounts:[1.5 2.5] NegativeCounts:[]}"},
	{"native histogram of nothing", histogram(`positive_span {}`),
		"histogram h: sum 0 count 0 le+Inf:0 native {Schema:0 ZeroThreshold:0 ZeroCount:0 PositiveSpans:[{Offset:0 Length:0}] NegativeSpans:[] PositiveCounts:[] NegativeCounts:[]}"},
}

func TestLegalMessages(t *testing.T) {
	r := NewProtobufReader(DefaultOptions())
	for _, c := range legalMessages {
		t.Run(c.name, func(t *testing.T) {
			families, fault := r.Read(delimited(t, c.families...))
			if got := strings.TrimSuffix(describe(families), "\n"); got != c.want || fault != (Fault{}) {
				t.Errorf("got %s (%v)\nwant %s", got, fault, c.want)
			}
		})
	}
}

// The message's fields in another order, and unknown fields.
func TestMessageFromOtherEncoders(t *testing.T) {
	value, _ := proto.Marshal(&dto.Metric{Gauge: &dto.Gauge{Value: proto.Float64(7)}})
	var message []byte
	message = protowire.AppendBytes(protowire.AppendTag(message, metricField, protowire.BytesType), value)
	message = protowire.AppendVarint(protowire.AppendTag(message, 99, protowire.VarintType), 5)
	message = protowire.AppendVarint(protowire.AppendTag(message, nameField, protowire.VarintType), 5)
	message = protowire.AppendString(protowire.AppendTag(message, typeField, protowire.BytesType), "x")
	message = protowire.AppendVarint(protowire.AppendTag(message, typeField, protowire.VarintType), uint64(dto.MetricType_GAUGE))
	message = protowire.AppendString(protowire.AppendTag(message, nameField, protowire.BytesType), "a")
	message = protowire.AppendString(protowire.AppendTag(message, typeField, protowire.BytesType), "x")
	families, fault := NewProtobufReader(DefaultOptions()).Read(protowire.AppendBytes(nil, message))
	if got := describe(families); got != "gauge a: 7\n" || fault != (Fault{}) {
		t.Errorf("%s, %v", got, fault)
	}
}

const gaugeA = `name: "a" type: GAUGE metric { gauge {} }`

var illegalMessages = []struct {
	name     string
	families []string
	want     string
}{
	{"timestamp", []string{gaugeA, `name: "b" type: GAUGE metric { label { name: "c" value: "d" } gauge {} } metric { gauge {} timestamp_ms: 0 }`},
		"2/2 unsupported: the sample has a timestamp; must have none, because a push is current"},
	{"no name", []string{`type: GAUGE metric { gauge {} }`}, "1/0 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty"},
	{"NUL in a name", []string{`name: "a\000"`}, "1/0 name: a name has a NUL byte"},
	{"same family twice", []string{gaugeA, gaugeA}, `2/0 kind_conflict: "a" has an earlier message; all metrics of a family must be in one`},
	{"same series twice", []string{`name: "a" type: GAUGE metric { label { name: "b" value: "1" } label { name: "c" } gauge {} } metric { label { name: "c" } label { name: "b" value: "1" } gauge {} }`},
		`1/2 malformed: the sample of "a" repeats the labels of an earlier one`},
	{"same summary twice", []string{`name: "s" type: SUMMARY metric { summary {} } metric { summary {} }`}, `1/2 malformed: the sample of "s" repeats the labels of an earlier one`},
	{"same histogram twice", []string{`name: "h" type: HISTOGRAM metric { histogram {} } metric { histogram {} }`}, `1/2 malformed: the sample of "h" repeats the labels of an earlier one`},
	{"names that clash", []string{gaugeA, `name: "h_sum" type: GAUGE metric { gauge {} }`, `name: "h" type: HISTOGRAM metric { histogram {} }`},
		`2/0 kind_conflict: "h_sum" is a metric, and also the name of a sample of a histogram or summary`},
	{"metric of another type", []string{`name: "a" type: GAUGE metric { counter {} }`}, "1/1 malformed: the metric has no value of its family's type"},
	{"metric of no type", []string{`name: "a" type: HISTOGRAM metric {}`}, "1/1 malformed: the metric has no value of its family's type"},

	{"label __name__", []string{`name: "a" type: GAUGE metric { label { name: "__name__" value: "b" } gauge {} }`}, `1/1 name: label "__name__": names that begin with "__" are reserved`},
	{"label without a name", []string{`name: "a" type: GAUGE metric { label { value: "b" } gauge {} }`}, "1/1 malformed: a label's name must be letters, digits and _, or any UTF-8 in double quotes, and not empty"},
	{"same label twice", []string{`name: "a" type: GAUGE metric { label { name: "b" value: "1" } label { name: "b" value: "2" } gauge {} }`}, `1/1 malformed: label "b" is repeated`},
	{"label le on a histogram", []string{`name: "h" type: HISTOGRAM metric { label { name: "le" value: "1" } histogram {} }`}, `1/1 malformed: label "le" belongs to the buckets or quantiles, not to the metric`},
	{"label quantile on a summary", []string{`name: "s" type: SUMMARY metric { label { name: "quantile" value: "1" } summary {} }`}, `1/1 malformed: label "quantile" belongs to the buckets or quantiles, not to the metric`},

	{"neither count nor bucket +Inf", histogram(`bucket { cumulative_count: 1 upper_bound: 1 }`), `1/0 malformed: histogram "h" has neither a count nor a bucket +Inf; must have one of them`},
	{"bucket +Inf that would fall", histogram(`sample_count: 1 bucket { cumulative_count: 2 upper_bound: 1 }`), `1/0 value: histogram "h" counts less than its last bucket, and has no bucket +Inf`},
	{"buckets that fall", histogram(`bucket { cumulative_count: 2 upper_bound: 1 } bucket { cumulative_count: 1 upper_bound: 2 }`),
		"1/1 value: bucket counts are cumulative: this one is below that of a smaller bound, or above that of a larger one"},
	{"same bucket twice", histogram(`bucket { upper_bound: 1 } bucket { upper_bound: 1 }`), "1/1 malformed: the bucket or quantile is repeated"},
	{"bucket bound NaN", histogram(`bucket { upper_bound: nan }`), `1/1 value: bucket bound is "NaN"; must be a number or +Inf`},
	{"bucket negative", histogram(`bucket { cumulative_count_float: -1 upper_bound: 1 }`), "1/1 value: a count of observations must be finite and at least 0"},
	{"count NaN", histogram(`sample_count_float: nan`), "1/1 value: a count of observations must be finite and at least 0"},
	{"quantile NaN", []string{`name: "s" type: SUMMARY metric { summary { quantile { quantile: nan } } }`}, `1/1 value: quantile is "NaN"; must be a number`},

	{"schema too fine", histogram(`schema: 9 zero_count: 1`), "1/1 unsupported: native histogram: the schema must be from -4 to 8"},
	{"schema of custom buckets", histogram(`schema: -53 positive_span { length: 0 }`), "1/1 unsupported: native histogram: the schema must be from -4 to 8"},
	{"zero count NaN", histogram(`zero_count_float: nan`), "1/1 value: native histogram: counts must be finite, and the zero threshold at least 0"},
	{"zero threshold negative", histogram(`zero_threshold: -1`), "1/1 value: native histogram: counts must be finite, and the zero threshold at least 0"},
	{"native bucket below 0", histogram(`positive_span { length: 2 } positive_delta: [1, -2]`), "1/1 value: native histogram: counts must be finite, and the zero threshold at least 0"},
	{"native bucket that wraps", histogram(`positive_span { length: 2 } positive_delta: [9223372036854775807, 9223372036854775807]`),
		"1/1 value: native histogram: counts must be finite, and the zero threshold at least 0"},
	{"native bucket infinite", histogram(`negative_span { length: 1 } negative_count: [inf]`), "1/1 value: native histogram: counts must be finite, and the zero threshold at least 0"},
	{"spans of fewer buckets", histogram(`positive_span { length: 1 } positive_delta: [1, 2]`), wantSpans},
	{"spans of more buckets", histogram(`positive_span { length: 3 } positive_delta: [1, 2]`), wantSpans},
	{"spans of very many buckets", histogram(`positive_span { length: 4294967295 } positive_span { length: 4294967295 }`), wantSpans},
	{"spans that overlap", histogram(`positive_span { length: 1 } positive_span { offset: -1 length: 1 } positive_delta: [1, 2]`), wantSpans},
	{"spans beyond 32 bits", histogram(`positive_span { offset: 2147483647 length: 1 } positive_span { offset: 2147483647 length: 1 } positive_delta: [1, 2]`), wantSpans},
	{"deltas and counts", histogram(`positive_span { length: 2 } positive_delta: [1] positive_count: [1]`), wantSpans},
}

const wantSpans = "1/1 malformed: native histogram: spans and counts must describe the same buckets"

func explainMessage(fault Fault) string {
	return fmt.Sprintf("%d/%d %s: %s", fault.Family, fault.Metric, fault.Reason, fault.Explain())
}

func TestIllegalMessages(t *testing.T) {
	r := NewProtobufReader(DefaultOptions())
	for _, c := range illegalMessages {
		t.Run(c.name, func(t *testing.T) {
			families, fault := r.Read(delimited(t, c.families...))
			if got := explainMessage(fault); got != c.want || families != nil {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// Bytes that the text form of protobuf cannot express.
func TestIllegalBytes(t *testing.T) {
	message := func(fields ...[]byte) []byte { return protowire.AppendBytes(nil, bytes.Join(fields, nil)) }
	field := func(number protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	gauge := protowire.AppendVarint(protowire.AppendTag(nil, typeField, protowire.VarintType), uint64(dto.MetricType_GAUGE))
	label, _ := proto.Marshal(&dto.Metric{Label: []*dto.LabelPair{{Name: proto.String("b"), Value: proto.String("\xff")}}, Gauge: &dto.Gauge{}})
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"length without its end", []byte{0x80}, "1/0 malformed: the body ends before the message that its length announces"},
		{"message cut short", append(delimited(t, gaugeA), 5, 1), "2/0 malformed: the body ends before the message that its length announces"},
		{"very long message", protowire.AppendVarint(nil, 1<<62), "1/0 malformed: the body ends before the message that its length announces"},
		{"text", []byte("a 1\n"), "1/0 malformed: the body ends before the message that its length announces"},
		{"no message", message([]byte("\xff\xff\xff")), "1/0 malformed: the bytes are not a message io.prometheus.client.MetricFamily"},
		{"field cut short", message([]byte{0x0a, 9}), "1/0 malformed: the bytes are not a message io.prometheus.client.MetricFamily"},
		{"no metric", message(field(nameField, "a"), gauge, field(metricField, "\xff")), "1/1 malformed: the bytes are not a message io.prometheus.client.MetricFamily"},
		{"unknown type", message(field(nameField, "a"), protowire.AppendVarint(protowire.AppendTag(nil, typeField, protowire.VarintType), 6)),
			"1/0 malformed: unknown type of a family; must be COUNTER, GAUGE, SUMMARY, UNTYPED, HISTOGRAM or GAUGE_HISTOGRAM"},
		{"name that is not UTF-8", message(field(nameField, "\xff"), gauge), "1/0 malformed: it is not valid UTF-8"},
		{"label value that is not UTF-8", message(field(nameField, "a"), gauge, field(metricField, string(label))), "1/1 malformed: it is not valid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			families, fault := NewProtobufReader(DefaultOptions()).Read(c.body)
			if got := explainMessage(fault); got != c.want || families != nil {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
	families, fault := NewProtobufReader(DefaultOptions()).Read(message(field(nameField, "a"), gauge, field(helpField, "x\xff"), field(metricField, "\x12\x00")))
	if got := describe(families); got != "gauge a (\"x�\"): 0\n" {
		t.Error(got, fault)
	}
}

func TestMessageLimits(t *testing.T) {
	small := Options{MaxFamilies: 2, MaxMetrics: 2, MaxLabels: 2, MaxLabelBytes: 20, MaxBuckets: 2, MaxLine: 10, MaxMessage: 60}
	for _, c := range []struct {
		name     string
		families []string
		want     string
	}{
		{"families", []string{gaugeA, `name: "b"`, `name: "c"`}, "3/0 limit: there are more than 2 families, which is the limit of a push"},
		{"metrics", []string{gaugeA, `name: "b" type: GAUGE metric {} metric {}`}, "2/0 limit: there are more than 2 metrics, which is the limit of a push"},
		{"labels", []string{`name: "a" metric { label { name: "b" } label { name: "c" } label { name: "d" } counter {} }`}, "1/1 too_long: there are more than 2 labels, which is the limit of a metric"},
		{"label bytes", []string{`name: "a" metric { label { name: "b" value: "1234567890123456789" } counter {} }`}, "1/1 too_long: the name and labels have more than 20 bytes, which is the limit of a metric"},
		{"name", []string{`name: "123456789012345678901"`}, "1/0 too_long: the name and labels have more than 20 bytes, which is the limit of a metric"},
		{"help", []string{`name: "a" help: "12345678901"`}, "1/0 too_long: the help has more than 10 bytes, which is the limit of a line"},
		{"buckets", histogram(`bucket { upper_bound: 1 } bucket { upper_bound: 2 } bucket { upper_bound: 3 }`), "1/1 too_long: there are more than 2 buckets or quantiles, which is the limit of a metric"},
		{"native buckets", histogram(`positive_span { length: 3 } positive_delta: [1, 2, 3]`), "1/1 too_long: there are more than 2 buckets or quantiles, which is the limit of a metric"},
		{"message", []string{`name: "a" metric { label { name: "b" value: "" } label { name: "c" value: "1234567890123456789012345678901234567890123456789012" } counter {} }`},
			"1/1 too_long: the metric takes more than 60 bytes, which is the limit of a metric in protobuf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, fault := NewProtobufReader(small).Read(delimited(t, c.families...))
			if got := explainMessage(fault); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// Few bytes that announce much cost little memory, however they are arranged.
func TestMessagesAreBounded(t *testing.T) {
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	family := func(metrics []byte) []byte {
		kind := protowire.AppendVarint(protowire.AppendTag(nil, typeField, protowire.VarintType), uint64(dto.MetricType_HISTOGRAM))
		return protowire.AppendBytes(nil, bytes.Join([][]byte{field(nameField, []byte("h")), kind, metrics}, nil))
	}
	const size = 4 << 20
	for name, body := range map[string][]byte{
		"empty metrics":       family(bytes.Repeat(field(metricField, nil), size/2)),
		"empty labels":        family(field(metricField, bytes.Repeat(field(1, nil), size/2))),
		"empty buckets":       family(field(metricField, field(7, bytes.Repeat(field(3, nil), size/2)))),
		"empty exemplars":     family(field(metricField, field(7, bytes.Repeat(field(16, nil), size/3)))),
		"a very long message": protowire.AppendVarint(nil, math.MaxUint64/2),
	} {
		r := NewProtobufReader(DefaultOptions())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, fault := r.Read(body)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 || fault.Reason == metric.Applied {
			t.Errorf("%s: %d bytes, %v", name, got, fault)
		}
	}
}

// FuzzProtobuf: no panic; what is taken is what the protobuf library decodes; written as text it is
// read again.
func FuzzProtobuf(f *testing.F) {
	for _, c := range legalMessages {
		f.Add(delimited(f, c.families...))
	}
	for _, c := range illegalMessages {
		f.Add(delimited(f, c.families...))
	}
	r, text := NewProtobufReader(DefaultOptions()), NewTextReader(DefaultOptions())
	f.Fuzz(func(t *testing.T, body []byte) {
		families, fault := r.Read(body)
		if fault.Reason != metric.Applied {
			if words := fault.Explain(); words == "" || len(words) > 512 || strings.HasPrefix(words, "it was refused") || fault.Family == 0 {
				t.Fatalf("detail %d of family %d is worded %q", fault.detail, fault.Family, words)
			}
			return
		}
		var want []Family
		for in := bytes.NewReader(body); in.Len() > 0; {
			metricFamily := &dto.MetricFamily{}
			if err := (protodelim.UnmarshalOptions{MaxSize: -1}).UnmarshalFrom(in, metricFamily); err != nil {
				t.Fatalf("protobuf says %v", err)
			}
			if len(metricFamily.Metric) > 0 {
				want = append(want, fromExpfmt(metricFamily))
			}
		}
		checkMessages(t, families)
		for i := range families {
			for j := range families[i].Metrics {
				if h := families[i].Metrics[j].Histogram; h != nil {
					h.Native = nil // text cannot say it
				}
			}
		}
		if got, want := describe(families), describe(want); got != want {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
		checkRoundTrip(t, text, families)
	})
}
