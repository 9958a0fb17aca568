package push

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"bytes"
)

// One client's name that is not of letters and underscores must not cost a Prometheus before 3.0
// the whole page.
func TestExposedNamesAreEscaped(t *testing.T) {
	g := gateway{start(t)}
	g.wants(200, "", "PUT", "/metrics/job/a", "# TYPE \"my.metric\" gauge\n{\"my.metric\",\"a.b\"=\"c\"} 1\n")
	g.wants(200, "", "PUT", "/metrics/job/b", "# TYPE my_metric gauge\nmy_metric 2\n")
	const messages = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	for accept, c := range map[string]struct {
		escaping string
		says     []string
	}{
		"": {"underscores", []string{"# TYPE my_metric gauge\n", `my_metric{a_b="c",instance="",job="a"} 1`, `my_metric{instance="",job="b"} 2`}},
		"text/plain;version=0.0.4;escaping=allow-utf-8":               {"allow-utf-8", []string{`{"my.metric","a.b"="c",instance="",job="a"} 1`, `my_metric{instance="",job="b"} 2`}},
		"text/plain;escaping=dots":                                    {"dots", []string{`my_dot_metric{a_dot_b="c",instance="",job="a"} 1`, `my__metric{instance="",job="b"} 2`}},
		"application/openmetrics-text;version=1.0.0;escaping=values":  {"values", []string{`U__my_2e_metric{U__a_2e_b="c",instance="",job="a"} 1.0`}},
		"application/openmetrics-text;version=1.0.0;escaping=unknown": {"underscores", []string{`my_metric{a_b="c",instance="",job="a"} 1.0`}},
		messages:                           {"underscores", []string{"my_metric"}},
		messages + ";escaping=allow-utf-8": {"allow-utf-8", []string{"my.metric"}},
	} {
		res, text := g.ask("GET", "/metrics", "", "Accept", accept)
		if got := res.Header.Get("Content-Type"); !strings.HasSuffix(got, "; escaping="+c.escaping) {
			t.Errorf("Accept %q: Content-Type %q", accept, got)
		}
		for _, says := range c.says {
			if !strings.Contains(text, says) {
				t.Errorf("Accept %q: %s\nwant %s", accept, text, says)
			}
		}
		if c.escaping == "underscores" && (strings.Contains(text, "my.metric") || strings.Count(text, "TYPE my_metric ") > 1) {
			t.Errorf("Accept %q: %s", accept, text)
		}
	}
}

// A body that a Pushgateway's parser cannot read does not mark the group as failed; one that its
// storage rejects does. (Tried on 1.11.)
func TestFailuresAsUpstream(t *testing.T) {
	for body, fails := range map[string]bool{
		"# TYPE x gauge\n# TYPE x gauge\nx 1\n": false,
		"x{__x=\"1\"} 1\n":                      true,
		"x{__name__=\"1\"} 1\n":                 false,
		"x 1 1700000000000\n":                   true,
		"x 1\nx 1\n":                            true,
		"# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 1\nh_sum 1\n# TYPE h_count gauge\n": false,
		"x{a=\"1\",a=\"2\"} 1\n": false,
		"rubbish\n":              false,
	} {
		g := gateway{start(t)}
		g.wants(200, "", "PUT", "/metrics/job/a", "y 1\n")
		g.wants(400, "", "PUT", "/metrics/job/a", body)
		if _, failed := g.times(); (failed != 0) != fails {
			t.Errorf("%q: push_failure_time_seconds is %v", body, failed)
		}
	}
}

// A gauge histogram falls: it is kept for exposition as what it is, and serves nobody's scaling.
func TestGaugeHistogram(t *testing.T) {
	g := gateway{start(t)}
	var message bytes.Buffer
	if _, err := protodelim.MarshalTo(&message, &dto.MetricFamily{Name: proto.String("h"), Type: dto.MetricType_GAUGE_HISTOGRAM.Enum(), Metric: []*dto.Metric{
		{Histogram: &dto.Histogram{SampleCount: proto.Uint64(3), SampleSum: proto.Float64(4), Bucket: []*dto.Bucket{{UpperBound: proto.Float64(1), CumulativeCount: proto.Uint64(2)}}}},
	}}); err != nil {
		t.Fatal(err)
	}
	const messages = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	res := g.wants(200, "", "PUT", "/metrics/job/a", message.String(), "Content-Type", messages)
	if got := res.Header.Get("Sluice-Unserved"); got != "h=unsupported" || g.served("h", "instance", "", "job", "a") {
		t.Errorf("Sluice-Unserved: %q", got)
	}
	g.exposes(`h_bucket{instance="",job="a",le="1"} 2`, `h_bucket{instance="",job="a",le="+Inf"} 3`, `h_sum{instance="",job="a"} 4`, `h_count{instance="",job="a"} 3`)
	g.wants(200, "# TYPE h gaugehistogram\n", "GET", "/metrics", "", "Accept", "application/openmetrics-text")
	g.wants(200, `h_gcount{instance="",job="a"} 3`, "GET", "/metrics", "", "Accept", "application/openmetrics-text")
	g.wants(200, `"type":"GAUGE_HISTOGRAM"`, "GET", "/api/v1/metrics", "")
	if _, all := g.ask("GET", "/metrics", "", "Accept", messages); !strings.Contains(all, "\x18\x05") { // type: GAUGE_HISTOGRAM
		t.Errorf("%q", all)
	}
}
