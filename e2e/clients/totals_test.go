package clients

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/scraper"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// seriesAlone is a Prometheus that scrapes all series each second.
const seriesAlone = `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: series
  honor_labels: true
  metrics_path: /metrics/series
  static_configs: [{targets: ["%s"]}]
`

// A kill takes back nothing that a Prometheus has scraped: no total falls, so none is counted again.
func TestTotalsOutliveKills(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	p := scraper.Start(t, fmt.Sprintf(seriesAlone, s.HTTP))
	push := pusher(t, s)
	const before = 1_000_000
	push(fmt.Sprintf("paid:%d|c\nlatency:%d|ms", before, before))
	p.Wants(0, map[string]float64{`paid_total`: before, `latency_sum`: before, `latency_count`: 1})
	sent := 0.0
	for range server.ShortOrLong(6, 30) {
		scraped, _ := p.Value(`paid_total`)
		server.Eventually(t, func() string {
			for range 10 {
				push("paid:1|c\nlatency:1|ms")
				sent++
			}
			if now, ok := p.Value(`paid_total`); !ok || now <= scraped {
				return fmt.Sprintf("Prometheus has %v (%v) after %v", now, ok, scraped)
			}
			return ""
		})
		s.Kill()
		s.Start()
	}
	last, _ := p.Value(`paid_total`)
	push("paid:1|c\nlatency:1|ms")
	server.Eventually(t, func() string {
		if now, _ := p.Value(`paid_total`); now <= last || now > before+sent+1 {
			return fmt.Sprintf("paid_total is %v after %v, want more, and up to %v", now, last, before+sent+1)
		}
		return ""
	})
	p.Wants(0, map[string]float64{
		`resets(paid_total[10m])`:    0,
		`resets(latency_sum[10m])`:   0,
		`resets(latency_count[10m])`: 0,
	})
	if got, ok := p.Value(`increase(paid_total[10m])`); !ok || got > 1.2*(sent+1) {
		t.Errorf("the increase is %v (%v), and %v were sent", got, ok, sent+1)
	}
}

// A kill takes back nothing of pushed groups that a page has shown: neither counters nor histograms and
// summaries fall.
func TestGroupTotalsOutliveKills(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	shown := regexp.MustCompile(`(?m)^(?:rows|took_bucket|took_count|size_count|plain)\{.*\} (\d+)$`)
	for n := range server.ShortOrLong(6, 30) {
		send(t, s, http.MethodPut, "/metrics/job/import", fmt.Sprintf(`# TYPE rows counter
rows %[1]d
# TYPE took histogram
took_bucket{le="+Inf"} %[1]d
took_sum 1
took_count %[1]d
# TYPE size summary
size_sum 1
size_count %[1]d
plain %[1]d
`, n+1))
		before := shown.FindAllString(read(t, s, "/metrics"), -1)
		s.Kill()
		s.Start()
		if after := shown.FindAllString(read(t, s, "/metrics"), -1); len(before) != 5 || !slices.Equal(before, after) {
			t.Errorf("kill %d: %q becomes %q", n, before, after)
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
