package loadtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const scraped = `# HELP sluice_kernel_drops_total Datagrams.
# TYPE sluice_kernel_drops_total counter
sluice_kernel_drops_total{receiver="http"} 0
sluice_kernel_drops_total{receiver="statsd_udp"} 3
# TYPE sluice_samples_applied_total counter
sluice_samples_applied_total{receiver="http"} 77
sluice_samples_applied_total{receiver="statsd_udp"} 1.2345678e+07
# TYPE sluice_samples_received_total counter
sluice_samples_received_total{receiver="statsd_udp"} 12345690
# TYPE sluice_samples_rejected_total counter
sluice_samples_rejected_total{reason="limit",receiver="http"} 5
sluice_samples_rejected_total{reason="limit",receiver="statsd_udp"} 4
sluice_samples_rejected_total{reason="malformed",receiver="statsd_udp"} 8
# TYPE sluice_series gauge
sluice_series 10000
`

func TestParseLedger(t *testing.T) {
	got, err := parseLedger(strings.NewReader(scraped))
	if want := (ledger{received: 12345690, applied: 12345678, rejected: 12, drops: 3}); err != nil || got != want {
		t.Errorf("%+v, %v: want %+v", got, err, want)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"another receiver": strings.ReplaceAll(scraped, "statsd_udp", "statsd_tcp"),
		"no drops":         strings.ReplaceAll(scraped, "sluice_kernel_drops_total", "sluice_drops_total"),
		"no exposition":    "<html>",
	} {
		if got, err := parseLedger(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %+v, want an error", name, got)
		}
	}
}

func TestReadGCShare(t *testing.T) {
	class := func(name, value string) string {
		name = "go_cpu_classes_" + name + "_cpu_seconds_total"
		return "# TYPE " + name + " counter\n" + name + " " + value + "\n"
	}
	for text, want := range map[string]float64{
		class("gc_total", "0.5") + class("total", "20") + class("idle", "12"): 0.0625,
		class("gc_total", "0") + class("total", "0") + class("idle", "0"):     0,
		class("total", "20") + class("idle", "12"):                            -1,
		class("gc_total", "0.5") + class("idle", "12"):                        -1,
		class("gc_total", "0.5") + class("total", "20"):                       -1,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		got, err := readGCShare(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"))
		server.Close()
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v: want %v (below 0: an error)", text, got, err, want)
		}
	}
}

func TestParseValues(t *testing.T) {
	got, err := parseValues([]byte(`{"items":[{"metric":"a","value":9007199254740993},{"value":2}]}`))
	if err != nil || !slices.Equal(got, []int64{9007199254740993, 2}) {
		t.Errorf("%v, %v: want both, to the last digit", got, err)
	}
	for _, body := range []string{`{"items":[{"value":1.5}]}`, `{"items":[{}]}`, `[]`, ``} {
		if got, err := parseValues([]byte(body)); err == nil {
			t.Errorf("%s: read as %v, want an error", body, got)
		}
	}
}
