package torture

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// powerTotals are the totals that readers have, by "reader name": the highest of each.
type powerTotals struct {
	mu  sync.Mutex
	all map[string]float64
}

// powerReaders are the totals that the test pushes, as each reader names them.
var powerReaders = []string{
	"/metrics/series jobs_total", "/metrics/series latency_sum", "/metrics/series latency_count",
	"/metrics rows", "/metrics took_count",
	"OTLP jobs", "OTLP latency_sum", "OTLP latency_count",
}

func (p *powerTotals) sawLocked(reader, name string, value float64) {
	name = reader + " " + name
	p.all[name] = max(p.all[name], value)
}

func (p *powerTotals) copy() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.all)
}

// awaitMore waits until readers have more of each total than they had.
func (p *powerTotals) awaitMore(t *testing.T, had map[string]float64, totals ...string) {
	t.Helper()
	server.Within(t, func() string {
		now := p.copy()
		for _, name := range totals {
			if now[name] <= had[name] {
				return fmt.Sprintf("%s is %v, and was %v", name, now[name], had[name])
			}
		}
		return ""
	})
}

// ServeHTTP takes exports, as an OpenTelemetry Collector does.
func (p *powerTotals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var export collector.ExportMetricsServiceRequest
	plain, err := gzip.NewReader(r.Body)
	if err == nil {
		var body []byte
		body, err = io.ReadAll(plain)
		err = errors.Join(err, proto.Unmarshal(body, &export))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, resource := range export.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range m.GetSum().GetDataPoints() {
					p.sawLocked("OTLP", m.Name, max(point.GetAsDouble(), float64(point.GetAsInt())))
				}
				for _, point := range m.GetSummary().GetDataPoints() {
					p.sawLocked("OTLP", m.Name+"_count", float64(point.Count))
					p.sawLocked("OTLP", m.Name+"_sum", point.Sum)
				}
			}
		}
	}
}

// scrape reads a page. A page that fails, or that is cut off, counts for nothing.
func (p *powerTotals) scrape(address, path string) error {
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", path, answer.Status, text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(series, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			p.sawLocked(path, name, v)
		}
	}
	return nil
}

// powerExporting makes a server that exports to readers each second.
func powerExporting(t *testing.T, data string, readers *powerTotals) *server.Server {
	t.Helper()
	otlp := httptest.NewServer(readers)
	t.Cleanup(otlp.Close)
	return server.New(t, "--data-dir", data, powerFlag, "--export-otlp", otlp.URL+"/v1/metrics", "--export-otlp-interval", "1s")
}

// TestPowerCutTotals: a power cut takes back no total that a reader had before, be it a Prometheus that
// scrapes all series or pushed groups, or an OpenTelemetry Collector.
func TestPowerCutTotals(t *testing.T) {
	disk, copies := powerNewDisk(t), t.TempDir()
	readers := &powerTotals{all: map[string]float64{}}
	s := powerExporting(t, filepath.Join(disk.path(), "data"), readers)
	s.Start()
	ended := make(chan struct{})
	var loads sync.WaitGroup
	repeat := func(do func(n int)) {
		loads.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-ended:
					return
				case <-time.After(time.Millisecond):
					do(n)
				}
			}
		})
	}
	conn, err := net.Dial("udp", s.UDP)
	must(t, err, "open a socket")
	defer conn.Close()
	repeat(func(int) { _, _ = conn.Write([]byte("jobs:1|c\nlatency:1|ms")) })
	repeat(func(n int) {
		body := fmt.Sprintf("# TYPE rows counter\nrows %d\n# TYPE took summary\ntook_sum 1\ntook_count %d\n", n, n)
		if answer, err := http.Post("http://"+s.HTTP+"/metrics/job/import", "text/plain", strings.NewReader(body)); err == nil {
			answer.Body.Close()
		}
	})
	for _, path := range []string{"/metrics/series", "/metrics"} {
		repeat(func(int) { _ = readers.scrape(s.HTTP, path) })
	}

	type cut struct {
		image string
		had   map[string]float64
	}
	var cuts []cut
	had := map[string]float64{}
	for i := range server.ShortOrLong(4, 40) {
		readers.awaitMore(t, had, powerReaders...)
		pause(500 * time.Millisecond)
		had = readers.copy()
		one := cut{filepath.Join(copies, fmt.Sprint(i)), had}
		must(t, disk.cut(one.image), "cut the power")
		cuts = append(cuts, one)
	}
	close(ended)
	loads.Wait()
	s.Kill()
	taken := 0
	for i, one := range cuts {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "disk")
			powerMount(t, one.image, at)
			after := &powerTotals{all: map[string]float64{}}
			s := powerExporting(t, filepath.Join(at, "data"), after)
			s.Start()
			powerPut(t, s.HTTP, 1) // it persists
			for _, path := range []string{"/metrics/series", "/metrics"} {
				server.Within(t, func() string {
					if err := after.scrape(s.HTTP, path); err != nil {
						return err.Error()
					}
					return ""
				})
			}
			must(t, push(s, http.MethodPost, "back", 1), "push a counter")
			after.awaitMore(t, nil, "OTLP back") // an export with totals has arrived
			now := after.copy()
			for _, name := range powerReaders {
				if now[name] < one.had[name] {
					taken++
					t.Errorf("%s falls from %v to %v", name, one.had[name], now[name])
				}
			}
			s.Stop()
			must(t, os.Remove(one.image), "remove the copy")
		})
	}
	figure(t, "%d power cuts, %d of %d totals taken back that a reader had", len(cuts), taken, len(cuts)*len(powerReaders))
}
