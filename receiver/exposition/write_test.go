package exposition

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sluice-metrics/sluice/metric"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
)

func TestAppend(t *testing.T) {
	for _, c := range []struct{ name, body, text, openMetrics string }{
		{"counter", lines("# HELP a_total x \\\\ \" \\n y", "# TYPE a_total counter", `a_total{b="c",d="\\\"\n"} 1`, "a_total 1e+06"),
			lines(`# HELP a_total x \\ " \n y`, "# TYPE a_total counter", `a_total{b="c",d="\\\"\n"} 1`, "a_total 1e+06"),
			lines(`# HELP a x \\ \" \n y`, "# TYPE a counter", `a_total{b="c",d="\\\"\n"} 1.0`, "a_total 1e+06")},
		{"counter without _total", lines("# TYPE a counter", "a 1"), lines("# TYPE a counter", "a 1"), lines("# TYPE a unknown", "a 1.0")},
		{"counter of the name _total", lines("# TYPE _total counter", "_total 1"), lines("# TYPE _total counter", "_total 1"), lines("# TYPE _total unknown", "_total 1.0")},
		{"untyped", lines(`a{b=""} 0.5`), lines("# TYPE a untyped", `a{b=""} 0.5`), lines("# TYPE a unknown", `a{b=""} 0.5`)},
		{"values", lines("# TYPE a gauge", "a NaN", `a{b="1"} +Inf`, `a{b="2"} -Inf`, `a{b="3"} -0`),
			lines("# TYPE a gauge", "a NaN", `a{b="1"} +Inf`, `a{b="2"} -Inf`, `a{b="3"} -0`),
			lines("# TYPE a gauge", "a NaN", `a{b="1"} +Inf`, `a{b="2"} -Inf`, `a{b="3"} -0.0`)},
		{"quoted", lines(`# TYPE "a.b_total" counter`, `{"a.b_total"} 1`, `{"a.b_total","c.d"="e",f="g"} 1`),
			lines(`# TYPE "a.b_total" counter`, `{"a.b_total"} 1`, `{"a.b_total","c.d"="e",f="g"} 1`),
			lines(`# TYPE "a.b" counter`, `{"a.b_total"} 1.0`, `{"a.b_total","c.d"="e",f="g"} 1.0`)},
		{"histogram", lines("# TYPE h histogram", `h_bucket{a="b",le="1"} 1`, `h_sum{a="b"} 3`, `h_count{a="b"} 2`),
			lines("# TYPE h histogram", `h_bucket{a="b",le="1"} 1`, `h_bucket{a="b",le="+Inf"} 2`, `h_sum{a="b"} 3`, `h_count{a="b"} 2`),
			lines("# TYPE h histogram", `h_bucket{a="b",le="1.0"} 1`, `h_bucket{a="b",le="+Inf"} 2`, `h_sum{a="b"} 3.0`, `h_count{a="b"} 2`)},
		{"quoted summary", lines(`# TYPE "s.x" summary`, `{"s.x",quantile="0.5"} 1`, `{"s.x_sum"} 3`, `{"s.x_count"} 2.5`),
			lines(`# TYPE "s.x" summary`, `{"s.x",quantile="0.5"} 1`, `{"s.x_sum"} 3`, `{"s.x_count"} 2.5`),
			lines(`# TYPE "s.x" summary`, `{"s.x",quantile="0.5"} 1.0`, `{"s.x_sum"} 3.0`, `{"s.x_count"} 2.5`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			families, fault := NewTextReader(DefaultOptions()).Read([]byte(c.body))
			if fault.Reason != metric.Applied {
				t.Fatal(fault)
			}
			if got := string(AppendEnd(Append([]byte("x"), Text, families...), Text)); got != "x"+c.text {
				t.Errorf("text\n got %s\nwant %s", got, c.text)
			}
			if got := string(AppendEnd(Append(nil, OpenMetrics, families...), OpenMetrics)); got != c.openMetrics+"# EOF\n" {
				t.Errorf("OpenMetrics\n got %s\nwant %s", got, c.openMetrics)
			}
		})
	}
	if got := Text.ContentType() + ", " + OpenMetrics.ContentType(); got !=
		"text/plain; version=0.0.4; charset=utf-8, application/openmetrics-text; version=1.0.0; charset=utf-8" {
		t.Error(got)
	}
}

// another body has something of everything.
var another = manyFamiliesBody(20, 20) + lines(`x{y="\\z\\\\\\\\"} 1`, "# TYPE s summary", `s{quantile="7"} 7`, `s{quantile="8"} 8`, `s{quantile="9"} 9`, "s_sum 1",
	"# TYPE h histogram", `h_bucket{le="7"} 7`, `h_bucket{le="8"} 8`, `h_bucket{le="9"} 9`, "h_count 9")

// FuzzRoundTrip: families that are written read back as equal.
func FuzzRoundTrip(f *testing.F) {
	for _, c := range legal {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(manyFamiliesBody(12, 12)))
	r, again := NewTextReader(DefaultOptions()), NewTextReader(DefaultOptions())
	f.Fuzz(func(t *testing.T, body []byte) {
		if families, fault := r.Read(body); fault.Reason == metric.Applied {
			checkRoundTrip(t, again, families)
		}
	})
}

// checkRoundTrip writes families and reads them again.
func checkRoundTrip(t *testing.T, r *TextReader, families []Family) {
	want := strings.ReplaceAll(describe(families), "gaugehistogram ", "histogram ") // text has no other name for it
	text := Append(nil, Text, families...)
	got, fault := r.Read(text)
	if fault.detail == longLine {
		return // a number or an escape may take more bytes when it is written
	}
	if fault.Reason != metric.Applied || describe(got) != want {
		t.Fatalf("%s\n got %s (%v)\nwant %s", text, describe(got), fault, want)
	}
	if end := AppendEnd(Append(nil, OpenMetrics, families...), OpenMetrics); !strings.HasSuffix(string(end), "# EOF\n") {
		t.Fatal("no end")
	}
}

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

func TestEscape(t *testing.T) {
	f := Family{Name: "my.metric", Type: GaugeType, Metrics: []Metric{{Labels: []metric.Label{{Key: "a.b", Value: "ä.c"}, {Key: "a:c", Value: "1"}, {Key: "a_b", Value: "2"}}, Value: 1}}}
	for e, want := range map[Escaping]string{
		Underscores: "# TYPE my_metric gauge\nmy_metric{a_b=\"ä.c\",a_c=\"1\"} 1\n",
		AllowUTF8:   "# TYPE \"my.metric\" gauge\n{\"my.metric\",\"a.b\"=\"ä.c\",\"a:c\"=\"1\",a_b=\"2\"} 1\n",
		Dots:        "# TYPE my_dot_metric gauge\nmy_dot_metric{a__b=\"2\",a_c=\"1\",a_dot_b=\"ä.c\"} 1\n",
		Values:      "# TYPE U__my_2e_metric gauge\nU__my_2e_metric{U__a_2e_b=\"ä.c\",a_b=\"2\",a_c=\"1\"} 1\n",
	} {
		if got := string(Append(nil, Text, *Escape(&f, e))); got != want {
			t.Errorf("%v:\n%swant\n%s", e, got, want)
		}
		if parsed, ok := ParseEscaping(e.String()); !ok || parsed != e {
			t.Errorf("%v is read as %v", e, parsed)
		}
		var m dto.MetricFamily
		if err := protodelim.UnmarshalFrom(bytes.NewReader(Append(nil, Protobuf, *Escape(&f, e))), &m); err != nil || m.GetName() != model.EscapeName(f.Name, escapings[e].scheme) {
			t.Errorf("%v: %v %v", e, err, &m)
		}
	}
	if f.Name != "my.metric" || f.Metrics[0].Labels[0].Key != "a.b" {
		t.Errorf("the family itself was changed: %+v", f)
	}
	plain := Family{Name: "a:b", Metrics: []Metric{{Labels: []metric.Label{{Key: "c", Value: "d.e"}}}}}
	if Escape(&plain, Underscores) != &plain {
		t.Error("a family without anything to escape was copied")
	}
}

func TestNegotiate(t *testing.T) {
	const (
		messages = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
		// What Prometheus 3 sends, with native histograms and without.
		native     = messages + ";q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
		prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
	)
	for accept, want := range map[string]Format{
		"":         Text,
		"*/*":      Text,
		"text/*":   Text,
		native:     Protobuf,
		prometheus: OpenMetrics,
		messages:   Protobuf,
		"application/vnd.google.protobuf; proto=\"io.prometheus.client.MetricFamily\"; encoding=delimited": Protobuf,
		messages + ";q=0.2,text/plain;q=0.3":      Text,
		"text/plain;q=0.3," + messages + ";q=0.4": Protobuf,
		"text/plain," + messages:                  Text,
		messages + ",text/plain":                  Protobuf,
		messages + ";q=0":                         Text,
		"application/vnd.google.protobuf":         Text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text":         Text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=compact-text": Text,
		"application/openmetrics-text;version=2.0.0":                                                    Text,
		"application/openmetrics-text;q=0.3,text/plain;q=0.4":                                           Text,
		"application/openmetrics-text;q=0.3, text/plain;q=0.3":                                          OpenMetrics,
		"APPLICATION/OpenMetrics-Text ; Q=0.3":                                                          OpenMetrics,
		"application/json":                                                                              Text,
		"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8":                                               Text,
		",;,=;q=x": Text,
	} {
		if got, _ := Negotiate([]byte(accept)); got != want {
			t.Errorf("%q: %v, want %v", accept, got.ContentType(), want.ContentType())
		}
		if different := differsFromExpfmt[accept]; different != "" {
			continue
		}
		theirs := map[expfmt.FormatType]Format{
			expfmt.TypeTextPlain: Text, expfmt.TypeOpenMetrics: OpenMetrics, expfmt.TypeProtoDelim: Protobuf,
		}
		format := expfmt.NegotiateIncludingOpenMetrics(http.Header{"Accept": {accept}})
		if f, ok := theirs[format.FormatType()]; !ok || f != want {
			t.Errorf("%q: expfmt picks %s, and the difference is in no table", accept, format)
		}
	}
}

// differsFromExpfmt says why.
var differsFromExpfmt = map[string]string{
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text":            "formats for people who debug, that nobody asks for",
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=compact-text":    "likewise",
	"application/vnd.google.protobuf; proto=\"io.prometheus.client.MetricFamily\"; encoding=delimited": "a value may be quoted (RFC 9110, section 5.6.6)",
	"APPLICATION/OpenMetrics-Text ; Q=0.3":                                                             "names are of any case (RFC 9110, section 8.3.1)",
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0":   "q=0 is what the client does not take (RFC 9110, section 12.4.2)",
}

// The samples of histograms and summaries are numbers of their own: those that a reader of text gets.
func TestPlain(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`# HELP h words
# TYPE h histogram
h_bucket{a="1",le="1"} 2
h_bucket{a="1",le="+Inf"} 3
h_sum{a="1"} 4
h_count{a="1"} 3
`, `# TYPE h_bucket counter
h_bucket{a="1",le="1.0"} 2
h_bucket{a="1",le="+Inf"} 3
# TYPE h_sum counter
h_sum{a="1"} 4
# TYPE h_count counter
h_count{a="1"} 3
`},
		{`# HELP s words
# TYPE s summary
s{quantile="0.5"} 2
s_sum 4
s_count 3
`, `# HELP s words
# TYPE s gauge
s{quantile="0.5"} 2
# TYPE s_sum counter
s_sum 4
# TYPE s_count counter
s_count 3
`},
	} {
		families, fault := NewTextReader(DefaultOptions()).Read([]byte(c.in))
		if fault.Reason != metric.Applied || len(families) != 1 {
			t.Fatal(fault.Error(), families)
		}
		if got := string(Append(nil, Text, Plain(&families[0])...)); got != c.want {
			t.Errorf("%s", got)
		}
	}
}
