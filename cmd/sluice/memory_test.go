package main

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/customkind"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// Measures the memory of a counter with three tags in the server's process, and where it is:
// SLUICE_MEMORY=750000 (or another number of series) go test ./cmd/sluice -run TestMemoryOfASeries
// -v. Ten million take minutes and 5 GiB. The store is not in it.
func TestMemoryOfASeries(t *testing.T) {
	series, err := strconv.Atoi(os.Getenv("SLUICE_MEMORY"))
	if err != nil {
		t.Skip("takes time: SLUICE_MEMORY=750000")
	}
	runtime.MemProfileRate = 32 << 10
	cfg := defaultConfig()
	cfg.standalone = true
	cfg.table.MaxSeries, cfg.table.MaxBytes = max(cfg.table.MaxSeries, series), max(cfg.table.MaxBytes, int64(series)*512)
	p := &dataPath{cfg: cfg, log: slog.New(slog.DiscardHandler), rules: new(customkind.Rulebook)}
	must(t, p.makeTable(t.Context()))
	tuneCollector()
	debug.FreeOSMemory()
	before := readRSS(t)
	path := &guardedPath{
		lines: make([]metric.Line, guardPacket), writer: p.table.NewWriter(),
		scanner: statsd.NewScanner(statsd.Options{MaxLine: cfg.receiver.MaxLine, MaxTags: cfg.receiver.MaxTags}),
	}
	defer path.writer.Close()
	for range 3 { // a log is made when a value has changed in two ticks
		path.born(t, series)
		p.table.Roll()
		time.Sleep(1100 * time.Millisecond)
	}
	if p.table.Series() != series {
		t.Fatalf("%d series, want %d", p.table.Series(), series)
	}
	each := func(bytes int64) float64 { return float64(bytes) / float64(series) }
	t.Logf("%d series: %.0f B of RssAnon each", series, each(readRSS(t)-before))
	for part, bytes := range tableBytes(t, p.table) {
		t.Logf("  %-16s %6.1f B", part, each(bytes))
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("  Go's heap: %.1f B live, %.1f B from the system", each(int64(m.HeapAlloc)-ballastBytes), each(int64(m.HeapSys-m.HeapReleased)-ballastBytes))
	for _, site := range heapSites() {
		if each(site.bytes) >= 0.5 {
			t.Logf("    %-60s %6.1f B", site.name, each(site.bytes))
		}
	}
	runtime.KeepAlive(p)
}

// born sends a line of each of so many series.
func (p *guardedPath) born(t *testing.T, series int) {
	var packet []byte
	for i := range series {
		if packet = fmt.Appendf(packet, "http.requests.m%d:1|c|#namespace:ns%d,pod:web-%d,code:%d",
			i%20, i/20%5, i/100%(series/500), 200+i/100/(series/500)); (i+1)%guardPacket != 0 {
			packet = append(packet, '\n')
			continue
		}
		p.apply(t, [][]byte{packet})
		packet = packet[:0]
	}
	if rest := bytes.TrimSuffix(packet, []byte{'\n'}); len(rest) > 0 {
		p.apply(t, [][]byte{rest})
	}
	p.writer.Quiesce()
}

func readRSS(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	var kib int64
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// tableBytes is what the table says that its parts take.
func tableBytes(t *testing.T, table prometheus.Collector) map[string]int64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(table)
	families, err := registry.Gather()
	must(t, err)
	parts := map[string]int64{}
	for _, f := range families {
		if f.GetName() == "sluice_table_bytes" {
			for _, m := range f.Metric {
				parts[m.Label[0].GetValue()] = int64(m.Gauge.GetValue())
			}
		}
	}
	return parts
}

type heapSite struct {
	name  string
	bytes int64
}

// heapSites is what lives on Go's heap, by the function of this module that asked for it, the most
// first. It is sampled.
func heapSites() []heapSite {
	records := make([]runtime.MemProfileRecord, 100_000)
	n, _ := runtime.MemProfile(records, false)
	by := map[string]int64{}
	for _, r := range records[:n] {
		size := float64(r.InUseBytes()) / float64(max(r.InUseObjects(), 1))
		sampled := 1 - math.Exp(-size/float64(runtime.MemProfileRate)) // the chance that one is
		by[siteOf(r.Stack())] += int64(float64(r.InUseBytes()) / max(sampled, 1e-9))
	}
	sites := make([]heapSite, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		sites = append(sites, heapSite{name, by[name]})
	}
	slices.SortStableFunc(sites, func(a, b heapSite) int { return cmp.Compare(b.bytes, a.bytes) })
	return sites
}

func siteOf(stack []uintptr) string {
	for frames := runtime.CallersFrames(stack); ; {
		frame, more := frames.Next()
		if name, ours := strings.CutPrefix(frame.Function, "github.com/sluice-metrics/sluice/"); ours {
			return name
		}
		if !more {
			return "others"
		}
	}
}

// A server that holds much does without ballast.
func TestBallastIsOfSmallHeaps(t *testing.T) {
	before := ballast
	defer func() { ballast = before }()
	ballast = make([]byte, ballastBytes)
	runtime.GC()
	if dropBallast() {
		t.Error("a small heap has lost it")
	}
	large := make([]byte, ballastUntil) // never touched: it takes no memory
	runtime.GC()
	if !dropBallast() {
		t.Errorf("a heap of %d MiB has it", ballastUntil>>20)
	}
	runtime.KeepAlive(large)
}
