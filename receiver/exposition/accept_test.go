package exposition

import (
	"net/http"
	"testing"

	"github.com/prometheus/common/expfmt"
)

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
