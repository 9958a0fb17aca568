package exposition

import (
	"bytes"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-metrics/sluice/metric"
)

// checkMessages writes families as protobuf and reads them again.
func checkMessages(t *testing.T, families []Family) {
	t.Helper()
	want := describe(families)
	body := Append([]byte(nil), Protobuf, families...)
	got, fault := NewProtobufReader(DefaultOptions()).Read(body)
	if fault.detail == longMessage {
		return // a number may take more bytes when it is written
	}
	if fault.Reason != metric.Applied || describe(got) != want {
		t.Fatalf("%x\n got %s (%v)\nwant %s", body, describe(got), fault, want)
	}
}

func TestAppendProtobuf(t *testing.T) {
	r := NewProtobufReader(DefaultOptions())
	for _, c := range legalMessages {
		families, fault := r.Read(delimited(t, c.families...))
		if fault.Reason != metric.Applied {
			t.Fatal(c.name, fault)
		}
		checkMessages(t, families)
	}
	text := NewTextReader(DefaultOptions())
	for _, body := range []string{pushed, pushedHistograms(), another} { // another has messages of more than 127 bytes
		families, fault := text.Read([]byte(body))
		if fault.Reason != metric.Applied {
			t.Fatal(fault)
		}
		checkMessages(t, families)
	}
}

// The output equals that of the protobuf library: the same fields with the same values.
func TestAppendProtobufIsWhatTheLibraryReads(t *testing.T) {
	for _, text := range []string{
		`name: "a" help: "what" type: COUNTER metric { label { name: "b" value: "c" } label { name: "d" value: "" } counter { value: 1 } }`,
		`name: "a" type: GAUGE metric { gauge { value: -1.5 } } metric { label { name: "b" value: "c" } gauge { value: inf } }`,
		`name: "a" type: UNTYPED metric { untyped { value: nan } }`,
		`name: "s" type: SUMMARY metric { summary { sample_count: 3 sample_sum: 4.5 quantile { quantile: 0.5 value: nan } quantile { quantile: 0.9 value: 2 } } }`,
		`name: "h" type: HISTOGRAM metric { histogram { sample_count: 3 sample_sum: 4.5 bucket { cumulative_count: 1 upper_bound: 0.5 } bucket { cumulative_count: 3 upper_bound: inf } } }`,
		`name: "h" type: GAUGE_HISTOGRAM metric { histogram { sample_count: 1 sample_sum: 2 bucket { cumulative_count: 1 upper_bound: inf } } }`,
		`name: "h" type: HISTOGRAM metric { histogram { sample_count_float: 2.5 sample_sum: 0 bucket { cumulative_count_float: 0.5 upper_bound: 1 } bucket { cumulative_count_float: 2.5 upper_bound: inf } } }`,
		`name: "h" type: HISTOGRAM metric { histogram { sample_count: 21 sample_sum: 8 schema: 3 zero_threshold: 0.001 zero_count: 2
			positive_span { offset: -2 length: 2 } positive_span { offset: 1 length: 1 } positive_delta: [1, 2, -1]
			negative_span { offset: 0 length: 2 } negative_delta: [5, 2] } }`,
		`name: "h" type: HISTOGRAM metric { histogram { sample_count_float: 4.5 sample_sum: 0 schema: -4 zero_threshold: 0 zero_count_float: 0.5 positive_span { offset: 0 length: 2 } positive_count: [1.5, 2.5] } }`,
		`name: "h" type: HISTOGRAM metric { histogram { sample_count: 0 sample_sum: 0 schema: 0 zero_threshold: 0 zero_count: 0 positive_span { offset: 0 length: 0 } } }`,
	} {
		in := delimited(t, text)
		families, fault := NewProtobufReader(DefaultOptions()).Read(in)
		if fault.Reason != metric.Applied {
			t.Fatal(text, fault)
		}
		decode := func(body []byte) *dto.MetricFamily {
			f := &dto.MetricFamily{}
			if err := expfmt.NewDecoder(bytes.NewReader(body), expfmt.NewFormat(expfmt.TypeProtoDelim)).Decode(f); err != nil {
				t.Fatal(err)
			}
			return f
		}
		if got, want := decode(Append(nil, Protobuf, families...)), decode(in); !proto.Equal(got, want) {
			t.Errorf("\n got %v\nwant %v", got, want)
		}
	}
	if got := Protobuf.ContentType(); got != string(expfmt.NewFormat(expfmt.TypeProtoDelim)) {
		t.Error(got)
	}
}
