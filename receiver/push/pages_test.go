package push

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/metric"
)

// longPages are the pages that have places, each with what fills it with metrics of so many bytes.
var longPages = []struct {
	path string
	fill func(h *harness, metrics, bytes int)
}{
	{"/metrics/series", fillTable},
	{"/metrics", fillGroups},
	{"/api/v1/metrics", fillGroups},
}

// isLong is what each metric of fill has once on a page.
const isLong = "is long: "

func fillTable(h *harness, metrics, bytes int) {
	label := metric.Label{Key: "label", Value: isLong + strings.Repeat("x", bytes)}
	for i := range metrics {
		h.table.series[key{metric.Object{Namespace: "shop"}, fmt.Sprint("m", i), metric.NewLabels([]metric.Label{label})}] = &entry{kind: metric.Gauge}
	}
}

func fillGroups(h *harness, metrics, bytes int) {
	const perGroup = 100
	for first := 0; first < metrics; first += perGroup {
		var body strings.Builder
		for i := first; i < min(first+perGroup, metrics); i++ {
			fmt.Fprintf(&body, "# HELP m%d %s%s\nm%d 1\n", i, isLong, strings.Repeat("x", bytes), i)
		}
		h.wants(200, "", "PUT", fmt.Sprint("/metrics/job/", first), body.String())
	}
}

// Readers who don't read have all places, and a scraper gets its page. A socket of the test has no deadlines, so they
// would keep the places for ever.
func TestSilentReadersKeepNoScraperOut(t *testing.T) {
	for _, page := range longPages {
		t.Run(page.path, func(t *testing.T) {
			t.Parallel()
			const bytes = 60_000
			const metrics = crowd.PageBytes/bytes + 1
			h := start(t)
			page.fill(h, metrics, bytes)
			got := crowd.BesideSilentReaders(t, h.server.Addr().String(), page.path, 6, 2)
			if n := strings.Count(got, isLong); n != metrics {
				t.Errorf("the page has %d metrics, want %d", n, metrics)
			}
		})
	}
}

// Two pages are written to one address at a time. Others to this address wait, few at once, until the readers of those are
// known to be slow; other addresses don't.
func TestPagesOfOneAddress(t *testing.T) {
	for _, page := range longPages {
		runInVirtualTime(t, page.path, func(t *testing.T) {
			var network *memory
			h := start(t, inMemory, func(_ *Config, p *Parts) { network = p.Listener.(*memory) })
			page.fill(h, 100, 9000) // more pieces than the buffers of a connection hold
			asks := func(from byte, method string) net.Conn {
				conn, err := network.dialFrom(&net.TCPAddr{IP: net.IPv4(127, 0, 0, from), Port: 1})
				must(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				write(t, conn, method+" "+page.path+" HTTP/1.1\r\nHost: a\r\n\r\n")
				synctest.Wait()
				return conn
			}
			isAnswered := func(conn net.Conn, want int, waits time.Duration) *http.Response {
				t.Helper()
				began := time.Now()
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				must(t, err)
				if waited := time.Since(began); answer.StatusCode != want || waited != waits {
					t.Errorf("the answer is %d after %v, want %d after %v", answer.StatusCode, waited, want, waits)
				}
				return answer
			}
			cutOff := isAnswered(asks(3, "GET"), 200, 0)
			isAnswered(asks(3, "GET"), 200, 0)
			time.Sleep(time.Second)
			third := asks(3, "GET")
			for range 7 {
				asks(3, "GET")
			}
			isAnswered(asks(3, "GET"), 429, 0)
			isAnswered(asks(2, "GET"), 200, 0)
			isAnswered(third, 200, 1250*time.Millisecond)
			if _, err := io.Copy(io.Discard, cutOff.Body); err == nil {
				t.Error("part of a page that was cut off is taken for the whole")
			}
			time.Sleep(time.Minute)
			for range 9 { // each gives its place back
				isAnswered(asks(3, "HEAD"), 200, 0)
			}
		})
	}
}

// A pod that ends while its request waits for a place gets no page: the next one may have its address.
func TestPagesOfEndedPods(t *testing.T) {
	for _, page := range longPages {
		runInVirtualTime(t, page.path, func(t *testing.T) {
			pods := &tenants{}
			pods.moveIn("former", 1)
			h := start(t, inMemory, func(_ *Config, p *Parts) { p.Senders, p.Trust = pods, trusting{} })
			page.fill(h, 100, 9000)
			asks := func() net.Conn {
				conn := h.dial()
				write(t, conn, "GET "+page.path+" HTTP/1.1\r\nHost: a\r\n\r\n")
				synctest.Wait()
				return conn
			}
			asks()
			asks()
			third := asks()
			pods.moveIn("next", 2)
			answer, err := http.ReadResponse(bufio.NewReader(third), nil)
			must(t, err)
			text, err := io.ReadAll(answer.Body)
			must(t, err)
			if answer.StatusCode != 503 || !strings.Contains(string(text), "the sender ended") {
				t.Errorf("it gets %d %.200s", answer.StatusCode, text)
			}
		})
	}
}
