package clients

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/child"
	"github.com/sluice-metrics/sluice/e2e/scraper"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// scrapes are jobs of a Prometheus that scrapes each way that a Sluice can be scraped.
const scrapes = `
global: {scrape_interval: 1s}
scrape_configs:
- job_name: series
  metrics_path: /metrics/series
  static_configs: [{targets: ["%[1]s"]}]
- job_name: statsd
  metrics_path: /metrics/series
  params: {naming: [statsd_exporter], namespace: [shop]}
  static_configs: [{targets: ["%[1]s"]}]
- job_name: histograms
  metrics_path: /metrics/series
  params: {timers: [histogram], match: [latency]}
  static_configs: [{targets: ["%[1]s"]}]
- job_name: replicas # as the chart's ServiceMonitor: all endpoints become one target
  metrics_path: /metrics/series
  static_configs:
  - {targets: ["127.0.0.1:1"], labels: {pod: sluice-0}}
  - {targets: ["127.0.0.1:2"], labels: {pod: sluice-1}}
  relabel_configs:
  - {target_label: __address__, replacement: "%[1]s"}
  - {action: labeldrop, regex: namespace|service|endpoint|pod|container|node}
- job_name: groups
  static_configs: [{targets: ["%[1]s"]}]
- job_name: sluice
  static_configs: [{targets: ["%[2]s"]}]
`

// A Prometheus scrapes all series, with names of its own and those of statsd_exporter, pushed
// groups and Sluice's own metrics, in OpenMetrics.
func TestPrometheusScrapesAll(t *testing.T) {
	t.Parallel()
	scrapesAll(t, func(*scraper.Prometheus, int) {})
}

// A Prometheus that takes native histograms scrapes protobuf.
func TestPrometheusScrapesNativeHistograms(t *testing.T) {
	t.Parallel()
	scrapesAll(t, func(p *scraper.Prometheus, observations int) {
		p.Wants(0, map[string]float64{`histogram_count(latency{job="histograms"})`: float64(observations)})
		p.Wants(0.1, map[string]float64{
			`histogram_quantile(0.9, latency{job="histograms"})`:      90,
			`histogram_quantile(0.5, sum(latency{job="histograms"}))`: 50,
		})
	}, "--enable-feature=native-histograms")
}

// scrapesAll pushes to a server that a Prometheus scrapes, and checks what the latter has.
// histogram checks the histogram, of so many observations.
func scrapesAll(t *testing.T, histogram func(p *scraper.Prometheus, observations int), flags ...string) {
	s := server.New(t, "--export-histograms")
	s.Start()
	p := scraper.Start(t, fmt.Sprintf(scrapes, s.HTTP, s.Ops), flags...)
	push := pusher(t, s)
	const tags = "#namespace:shop,pod:web-1"
	for i := range 100 {
		push(fmt.Sprintf("latency:%d|ms|%s", i+1, tags))
	}
	push("http.requests:3|c|" + tags + ",code:200\nhttp.requests:4|c|" + tags + ",code:500\nqueue.depth:7|g\nusers:a|s|" + tags + "\nusers:b|s|" + tags)
	send(t, s, http.MethodPut, "/metrics/job/import/instance/a",
		"rows 17\n{\"http.errors\",\"log level\"=\"warn\"} 2\n{\"größe\"} 5\n") // Debian's Prometheus 2.42 knows no UTF-8 names

	p.Wants(0, map[string]float64{
		`sum(up)`:                     6,
		`count(up)`:                   6,
		`queue_depth{job="replicas"}`: 7,
		`http_requests_total{job="series",namespace="shop",pod="web-1",code="200"}`: 3,
		`sum(http_requests_total{job="series"})`:                                    7,
		`queue_depth{job="series"}`:                                                 7,
		`users{job="series",pod="web-1"}`:                                           2,
		`latency_count{job="series"}`:                                               100,
		`latency_sum{job="series"}`:                                                 5050,
		`http_requests{job="statsd",code="500"}`:                                    4,
		`latency_sum{job="statsd"}`:                                                 5.05,
		`rows{job="groups",exported_job="import",exported_instance="a"}`:            17,
		`http_errors{job="groups",exported_job="import",log_level="warn"}`:          2,
		`gr__e{job="groups",exported_job="import"}`:                                 5,
		`sluice_export_left_out_series{job="sluice"}`:                               0,
	})
	p.Wants(0.1, map[string]float64{
		`latency{job="series",quantile="0.5"}`:  50,
		`latency{job="statsd",quantile="0.99"}`: 0.099,
	})
	histogram(p, 100)
	push("http.requests:10|c|" + tags + ",code:200\nlatency:1|ms|" + tags)
	p.Wants(0, map[string]float64{`http_requests_total{job="series",code="200"}`: 13, `latency_count{job="series"}`: 101})
	histogram(p, 101)
	s.Stop() // a restart is no reset
	s.Start()
	push("http.requests:1|c|" + tags + ",code:200\nlatency:2|ms|" + tags)
	p.Wants(0, map[string]float64{
		`http_requests_total{job="series",code="200"}`:       14,
		`latency_count{job="series"}`:                        102,
		`latency_sum{job="series"}`:                          5053,
		`max(resets(http_requests_total{job="series"}[1m]))`: 0,
		`max(resets(latency_sum{job="series"}[1m]))`:         0,
	})
	histogram(p, 102)
}

// pusher sends datagrams of lines.
func pusher(t *testing.T, s *server.Server) func(lines string) {
	t.Helper()
	conn, err := net.Dial("udp", s.UDP)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return func(lines string) {
		if _, err := conn.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
	}
}

func send(t *testing.T, s *server.Server, method, path, body string) {
	t.Helper()
	if status, text := server.Ask(t, method, "http://"+s.HTTP+path, body); status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}

// With naming=statsd_exporter, names, types, labels and values are those of a statsd_exporter that
// gets the same lines, over relay-to.
func TestNamesOfStatsDExporter(t *testing.T) {
	binary, err := exec.LookPath("prometheus-statsd-exporter")
	if err != nil {
		if binary, err = exec.LookPath("statsd_exporter"); err != nil {
			t.Skip("skipped: statsd_exporter is not installed")
		}
	}
	ports := []string{server.FreeAddress(t, "udp"), server.FreeAddress(t, "tcp"), server.FreeAddress(t, "tcp")}
	cmd := exec.Command(binary, "--statsd.listen-udp", ports[0], "--statsd.listen-tcp", ports[1], "--web.listen-address", ports[2])
	p, err := child.Start(cmd)
	must(t, err)
	t.Cleanup(p.Kill)
	s := server.New(t, "--relay-to", "tcp://"+ports[1])
	s.Start()
	push := pusher(t, s)
	push("web.requests-total:3|c|#code:200\nweb.requests-total:4|c|#code:500,zone:a.b\n1st.gauge:2.5|g\na.b.c_d:7|g|#x-y:z\nlat:100|ms\nlat:300|ms|#k:v\nlat:50|ms|#k:v")
	families := func(address, path string) (text string) {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err.Error()
		}
		own := false
		for _, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				own = strings.HasPrefix(name, "statsd_") || strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_")
			}
			if !own && !strings.HasPrefix(line, "# HELP") && !strings.Contains(line, "quantile=") {
				text += line + "\n"
			}
		}
		return text
	}
	server.Eventually(t, func() string {
		want := families(ports[2], "/metrics")
		if got := families(s.HTTP, "/metrics/series?naming=statsd_exporter"); got != want || !strings.Contains(got, "lat_count") {
			return fmt.Sprintf("Sluice exposes\n%s\nstatsd_exporter\n%s", got, want)
		}
		return ""
	})
	if got := s.Metrics()[`sluice_relay_lines_total{outcome="sent",target="tcp://`+ports[1]+`"}`]; got != 7 {
		t.Errorf("%v lines relayed, want 7", got)
	}
}
