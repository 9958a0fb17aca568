package operations

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
)

// Pages of one address leave places to others; a page that has no place for 8 s is answered with 503.
func TestPagesOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		making := make(chan struct{})
		limited := limitPages(connlimit.New("test", connlimit.Limits{}, slog.New(slog.DiscardHandler)),
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					<-making
				}
			}))
		asks := func(from, path string, want int, waits time.Duration) {
			w, r, began := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil), time.Now()
			r.RemoteAddr = from + ":1234"
			limited(w, r)
			if w.Code != want || path != "/slow" && time.Since(began) != waits {
				t.Errorf("%s%s gets %d after %v, want %d after %v", from, path, w.Code, time.Since(began), want, waits)
			}
		}
		var done sync.WaitGroup
		for range pagesEach {
			done.Go(func() { asks("10.0.0.1", "/slow", http.StatusOK, 0) })
		}
		synctest.Wait()
		asks("10.0.0.1", "/", http.StatusServiceUnavailable, connlimit.PageWait)
		asks("10.0.0.2", "/", http.StatusOK, 0)
		close(making)
		done.Wait()
		asks("10.0.0.1", "/", http.StatusOK, 0)
	})
}

// Readers who don't read have all places, and a scraper gets its page.
func TestSilentReadersKeepNoScraperOut(t *testing.T) {
	const series = 32
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_test", Help: "A gauge."}, []string{"i"})
	registry.MustRegister(gauge)
	for i := range series {
		gauge.WithLabelValues(fmt.Sprint(i, strings.Repeat("x", crowd.PageBytes/series))).Set(1)
	}
	var said logtest.Buffer
	server, err := Listen(Config{Address: "127.0.0.1:0"}, nil, registry, slog.New(slog.NewTextHandler(&said, nil)))
	must(t, err)
	server.http.WriteTimeout = 0
	stop := serving(t, server)
	page := crowd.BesideSilentReaders(t, server.Addr().String(), "/metrics", pagesAtOnce, pagesEach)
	if n := strings.Count(page, "sluice_test{"); n != series {
		t.Errorf("the page has %d series, want %d", n, series)
	}
	stop()
	if text := said.String(); text != "" {
		t.Errorf("the log has: %s", text)
	}
}
