package push

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// gateway is a server, spoken to as a Pushgateway.
type gateway struct{ *harness }

// ask sends a request whose answer may be text.
func (g gateway) ask(method, path, body string, headers ...string) (*http.Response, string) {
	g.Helper()
	to := g.next()
	req, err := http.NewRequest(method, to.url+path, strings.NewReader(body))
	must(g, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := to.client.Do(req)
	must(g, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(g, err)
	g.exchange()
	return res, string(text)
}

// wants sends a request and looks at its status, and that the answer holds a text.
func (g gateway) wants(status int, says, method, path, body string, headers ...string) *http.Response {
	g.Helper()
	res, text := g.ask(method, path, body, headers...)
	if res.StatusCode != status || !strings.Contains(text, says) {
		g.Errorf("%s %s: %d %s, want %d and %q", method, path, res.StatusCode, text, status, says)
	}
	return res
}

// exposes holds GET /metrics against lines, without the times and comments.
func (g gateway) exposes(lines ...string) {
	g.Helper()
	_, text := g.ask("GET", "/metrics", "")
	var got []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "push_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(lines) {
		g.Errorf("GET /metrics:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// times are push_time_seconds and push_failure_time_seconds of the only group.
func (g gateway) times() (pushed, failed float64) {
	g.Helper()
	groups := g.groups.All(nil)
	if len(groups) != 1 {
		g.Fatalf("there are %d groups, want 1", len(groups))
	}
	own := group.PushTimeFamilies(groups)
	return own[1].Metrics[0].Value, own[0].Metrics[0].Value
}

func (g gateway) served(name string, labels ...string) bool {
	var set []metric.Label
	for i := 0; i < len(labels); i += 2 {
		set = append(set, metric.Label{Key: labels[i], Value: labels[i+1]})
	}
	return g.table.get(metric.Object{}, name, set...) != nil
}

// compressed is a text in a Content-Encoding.
func compressed(t *testing.T, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "", "identity":
		return text
	case "deflate":
		w = zlib.NewWriter(&b)
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	case "snappy":
		w = s2.NewWriter(&b, s2.WriterSnappyCompat())
	}
	_, _ = io.WriteString(w, text)
	must(t, w.Close())
	return b.String()
}

const delimited = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

func delimitedText(t *testing.T, families ...*dto.MetricFamily) string {
	t.Helper()
	var b bytes.Buffer
	e := expfmt.NewEncoder(&b, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for _, f := range families {
		must(t, e.Encode(f))
	}
	return b.String()
}
