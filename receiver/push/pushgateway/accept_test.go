package pushgateway

import (
	"net/http"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/sluice-metrics/sluice/receiver/exposition"
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
