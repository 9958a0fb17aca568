package push

import (
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"google.golang.org/protobuf/proto"
)

func TestNegotiate(t *testing.T) {
	const (
		messages = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
		// What Prometheus 3 sends, with native histograms and without.
		native     = messages + ";q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
		prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
	)
	for accept, want := range map[string]exposition.Format{
		"":         exposition.Text,
		"*/*":      exposition.Text,
		"text/*":   exposition.Text,
		native:     exposition.Protobuf,
		prometheus: exposition.OpenMetrics,
		messages:   exposition.Protobuf,
		"application/vnd.google.protobuf; proto=\"io.prometheus.client.MetricFamily\"; encoding=delimited": exposition.Protobuf,
		messages + ";q=0.2,text/plain;q=0.3":      exposition.Text,
		"text/plain;q=0.3," + messages + ";q=0.4": exposition.Protobuf,
		"text/plain," + messages:                  exposition.Text,
		messages + ",text/plain":                  exposition.Protobuf,
		messages + ";q=0":                         exposition.Text,
		"application/vnd.google.protobuf":         exposition.Text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text":         exposition.Text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=compact-text": exposition.Text,
		"application/openmetrics-text;version=2.0.0":                                                    exposition.Text,
		"application/openmetrics-text;q=0.3,text/plain;q=0.4":                                           exposition.Text,
		"application/openmetrics-text;q=0.3, text/plain;q=0.3":                                          exposition.OpenMetrics,
		"APPLICATION/OpenMetrics-Text ; Q=0.3":                                                          exposition.OpenMetrics,
		"application/json":                                                                              exposition.Text,
		"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8":                                               exposition.Text,
		",;,=;q=x": exposition.Text,
	} {
		if got, _ := negotiate([]byte(accept)); got != want {
			t.Errorf("%q: %v, want %v", accept, got.ContentType(), want.ContentType())
		}
		if different := differsFromExpfmt[accept]; different != "" {
			continue
		}
		theirs := map[expfmt.FormatType]exposition.Format{
			expfmt.TypeTextPlain: exposition.Text, expfmt.TypeOpenMetrics: exposition.OpenMetrics, expfmt.TypeProtoDelim: exposition.Protobuf,
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

// A native histogram that was pushed comes out as one where protobuf is asked for, and by its other buckets elsewhere.
func TestExposesNativeHistograms(t *testing.T) {
	g := gateway{start(t)}
	body := delimitedText(t, &dto.MetricFamily{
		Name: proto.String("h"), Type: dto.MetricType_HISTOGRAM.Enum(),
		Metric: []*dto.Metric{{Histogram: &dto.Histogram{
			SampleCount: proto.Uint64(8), SampleSum: proto.Float64(8), Schema: proto.Int32(3), ZeroThreshold: proto.Float64(0.001), ZeroCount: proto.Uint64(2),
			PositiveSpan:  []*dto.BucketSpan{{Offset: proto.Int32(-2), Length: proto.Uint32(3)}},
			PositiveDelta: []int64{1, 2, -1},
		}}},
	})
	g.wants(200, `"applied":1`, "PUT", "/metrics/job/a", body, "Content-Type", delimited)
	res, out := g.ask("GET", "/metrics", "", "Accept", delimited+"; escaping=allow-utf-8")
	if got := res.Header.Get("Content-Type"); got != delimited+"; escaping=allow-utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	reader := exposition.NewProtobufReader(exposition.DefaultOptions())
	families, fault := reader.Read([]byte(out))
	if fault.Reason != metric.Applied || len(families) != 3 { // the two that every group has, too
		t.Fatal(fault, len(families))
	}
	n := families[0].Metrics[0].Histogram.Native
	if n == nil || n.Schema != 3 || n.ZeroCount != 2 || len(n.PositiveCounts) != 3 || n.PositiveCounts[1] != 3 {
		t.Errorf("%+v", n)
	}
	if _, again := g.ask("GET", "/metrics", "", "Accept", "text/plain"); again == out {
		t.Error("text is protobuf")
	}
	g.exposes(`h_bucket{instance="",job="a",le="+Inf"} 8`, `h_sum{instance="",job="a"} 8`, `h_count{instance="",job="a"} 8`)
}
