package torture

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/scraper"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// TestPowerCutUnderPrometheus: a Prometheus that scrapes a server over power cuts sees no counter reset, so it
// counts nothing twice.
func TestPowerCutUnderPrometheus(t *testing.T) {
	disk := powerNewDisk(t)
	s := server.New(t, "--data-dir", filepath.Join(disk.path(), "data"), powerFlag)
	s.Start()
	p := scraper.Start(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: series
  honor_labels: true
  metrics_path: /metrics/series
  static_configs: [{targets: ["%s"]}]
`, s.HTTP))
	const before = 1_000_000
	must(t, push(s, "POST", "paid", before), "push")
	p.Wants(0, map[string]float64{`paid_total`: before})
	sent := 0.0
	cuts := server.ShortOrLong(3, 30)
	more := func() {
		t.Helper()
		scraped, _ := p.Value(`paid_total`)
		server.Within(t, func() string {
			must(t, push(s, "POST", "paid", 1), "push")
			sent++
			if now, ok := p.Value(`paid_total`); !ok || now <= scraped {
				return fmt.Sprintf("Prometheus has %v (%v) after %v", now, ok, scraped)
			}
			return ""
		})
	}
	for range cuts {
		more()
		disk.outage(t, s) // a moment ago, Prometheus has got more
		s.Start()
	}
	more()
	p.Wants(0, map[string]float64{`resets(paid_total[10m])`: 0})
	if got, ok := p.Value(`increase(paid_total[10m])`); !ok || got > 1.2*(sent+1) {
		t.Errorf("the increase is %v (%v), and %v were sent", got, ok, sent)
	}
	figure(t, "%d power cuts under a Prometheus, 0 resets", cuts)
}
