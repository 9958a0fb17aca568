package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-loadtest-test-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "sluice")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/sluice").CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	if code, isFloor := FloorMain(); isFloor {
		os.Exit(code)
	}
	code := m.Run()
	if started {
		if binary, err := built(); err == nil {
			_ = os.RemoveAll(filepath.Dir(binary))
		}
	}
	os.Exit(code)
}

var started bool // a binary was built

func sluice(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the server")
	}
	started = true
	path, err := built()
	must(t, err)
	return path
}

// small is a load for a busy machine.
func small(t *testing.T, scenario string) Config {
	return Config{Binary: sluice(t), Scenarios: []string{scenario}, Lines: 200_000, Rates: Rates{400_000}, Runs: 1}
}

func TestRunsAddUp(t *testing.T) {
	for _, scenario := range []string{"tagged-10k", "plain-10k", "timers-10k", "single-10k", "hot-key", "client"} {
		cfg := small(t, scenario)
		if scenario == "single-10k" {
			cfg.Lines, cfg.Rates = 20_000, Rates{40_000}
		}
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			r, err := Measure(t.Context(), cfg)
			must(t, err)
			run := r.Scenarios[0].Runs[0]
			for name, taken := range map[string]Taken{"server": run.Server, "floor": run.Floor, "blocking floor": run.Blocking} {
				if taken.Sent < int64(cfg.Lines) || taken.Taken > taken.Sent || taken.Taken == 0 || taken.CPUPerLine() <= 0 {
					t.Errorf("%s: %+v: want %d lines sent, and taken at some cost", name, taken, cfg.Lines)
				}
				if least := 450 * time.Millisecond; taken.Sending < least {
					t.Errorf("%s: sent in %s: want at least %s at this rate", name, taken.Sending, least)
				}
			}
			if run.Memory.PeakBytes == 0 || run.Memory.AnonBytes == 0 {
				t.Errorf("memory %+v: want some", run.Memory)
			}
		})
	}
}

// The accounting of every kind is exact with drops, too. Few pods keep the test short.
func TestMixedAddsUp(t *testing.T) {
	cfg := small(t, "mixed-750k")
	cfg.Lines, cfg.Rates = 600_000, nil
	load := cfg.loads()[0]
	load.series = newMixed(5, 20)
	r, err := newComparison(cfg, load, processors{anyCPU, anyCPU}, &Machine{}).all(t.Context())
	must(t, err)
	for _, run := range r[0].Runs {
		if run.Server.Taken+run.Server.DroppedDatagrams*mixedLines != run.Server.Sent {
			t.Errorf("%+v: want sent = taken + dropped", run.Server)
		}
	}
}

// sluicePeer returns a peer: any server may be one, also sluice.
func sluicePeer(t *testing.T, name string) Peer {
	return Peer{
		Name: name, Scenarios: []string{"plain-10k"},
		Command: []string{sluice(t), "serve", "--standalone", "--config", "{config}", "--data-dir", t.TempDir() + "/data",
			"--statsd-tcp=", "--http-address=127.0.0.1:0", "--api-address=127.0.0.1:0"},
		Config: "statsd-udp: 127.0.0.1:{udp}\nops-address: 127.0.0.1:{tcp}\n",
	}
}

// Each server has an entry per scenario and rate, with the floors of the same run. A peer that
// fails or is not installed stops no other.
func TestPeersAndRates(t *testing.T) {
	cfg := small(t, "plain-10k")
	cfg.Rates = Rates{400_000, 800_000}
	wrong := Peer{Name: "wrong", Command: []string{"/bin/echo", "{udp}"}, Scenarios: []string{"plain-10k"}}
	missing := Peer{Name: "missing", Command: []string{"/no/such/program", "{udp}"}, Scenarios: []string{"plain-10k"}}
	cfg.Peers = []Peer{wrong, missing, sluicePeer(t, "other")}
	var progress strings.Builder
	cfg.Progress = &progress
	r, err := Measure(t.Context(), cfg)
	if err == nil || strings.Count(err.Error(), "wrong, run 1: ") != 2 || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("error %v: want that one peer ended by itself, at both rates", err)
	}
	if !strings.Contains(progress.String(), "missing is skipped: ") {
		t.Errorf("progress %q: want that a peer is skipped", progress.String())
	}
	var got []string
	for _, s := range r.Scenarios {
		got = append(got, fmt.Sprintf("%s %d %s", s.Scenario, s.Load.RatePerSecond, s.Server))
		if len(s.Runs) != 1 || s.Runs[0].Server.Taken == 0 || s.Runs[0].Floor.Taken == 0 || s.Runs[0].Blocking.Taken == 0 {
			t.Errorf("%+v: want a run of the server and the floors", s)
		}
	}
	want := []string{
		"plain-10k 400000 sluice", "plain-10k 400000 other", "plain-10k 800000 sluice", "plain-10k 800000 other",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("entries %q: want %q", got, want)
	}
	ours, other := r.Scenarios[0], r.Scenarios[1]
	if others := newComparison(cfg, Config{Scenarios: []string{"hot-key"}}.loads()[0], processors{anyCPU, anyCPU}, &Machine{}).peers; len(others) > 0 {
		t.Errorf("%d peers: want none in a scenario that they don't take", len(others))
	}
	if ours.Runs[0].Floor != other.Runs[0].Floor || len(ours.Load.Command) != 0 || len(other.Load.Command) == 0 {
		t.Errorf("%+v, %+v: want the same floor, and a command of the peer only", ours, other)
	}
	if len(other.Notes) != 1 || !strings.Contains(other.Notes[0], "no accounting") || len(other.Figures) != 0 {
		t.Errorf("%+v: want that the peer's accounting was not checked", other)
	}
	if !slices.ContainsFunc(ours.Figures, func(f Measured) bool { return f.Name == "cheapest_peer_ratio" && f.Median > 0 }) {
		t.Errorf("%+v: want a ratio to the cheapest peer", ours.Figures)
	}
}

// No process outlives Measure.
func TestStoppedHalfway(t *testing.T) {
	cfg := small(t, "plain-10k")
	cfg.Lines = 100_000_000
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := Measure(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v: want that the time was over", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, cfg); err == nil || err.Error() != "plain-10k, 400,000 lines/s: interrupted: 0 of 1 runs were finished" {
		t.Errorf("error %v: want that it was interrupted", err)
	}
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("this kernel does not list children: ", err)
	}
	for _, list := range lists {
		if children, err := os.ReadFile(list); err == nil && len(children) > 0 {
			t.Errorf("processes %s are left", children)
		}
	}
}

// "make figures" measures every scenario.
func TestMakefileNamesEveryScenario(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	must(t, err)
	var names []string
	for _, s := range figureScenarios {
		names = append(names, s.Name)
	}
	if want := "\nOTHERS = " + strings.Join(names, " ") + "\n"; !strings.Contains(string(text), want) {
		t.Errorf("the Makefile lacks %q", want)
	}
}

// Every scenario of figures runs in a small size and adds up. Its figures are not checked.
func TestFigureScenariosAddUp(t *testing.T) {
	binary := sluice(t)
	for _, s := range figureScenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r, err := Measure(t.Context(), Config{Binary: binary, Scenarios: []string{s.Name}, Runs: 1, Short: true})
			must(t, err)
			result := r.Scenarios[0]
			if len(result.Figures) == 0 && !slices.ContainsFunc(result.Notes, func(n string) bool { return strings.HasPrefix(n, "skipped: ") }) {
				t.Errorf("no figures, and no word on why: %+v", result)
			}
			for _, f := range result.Figures {
				if f.Median < 0 {
					t.Errorf("%s is %v %s", f.Name, f.Median, f.Unit)
				}
			}
		})
	}
}

func TestTooLittleDiskSpaceIsRejected(t *testing.T) {
	if err := diskSpaceFault("/tmp", minFreeBytes); err != nil {
		t.Errorf("just enough: %v", err)
	}
	if err := diskSpaceFault("/tmp", 300<<20); err == nil || !strings.Contains(err.Error(), "/tmp has 300 MiB of free space; must have 1024 MiB") {
		t.Errorf("error %v: want the free and the required space", err)
	}
	cfg := DefaultConfig()
	cfg.Binary = "/bin/false"
	t.Setenv("TMPDIR", "/proc") // it has no free space
	if _, err := Measure(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "/proc has 0 MiB of free space") {
		t.Errorf("error %v: want that there is no space", err)
	}
}

func TestMeters(t *testing.T) {
	said, err := parseMeters(strings.NewReader(`# TYPE sluice_samples_received_total counter
sluice_samples_received_total{receiver="http"} 5
sluice_samples_received_total{receiver="statsd_udp"} 7
# TYPE sluice_samples_applied_total counter
sluice_samples_applied_total{receiver="http"} 3
# TYPE sluice_samples_rejected_total counter
sluice_samples_rejected_total{reason="name",receiver="http"} 1
sluice_samples_rejected_total{reason="value",receiver="http"} 1
# TYPE sluice_store_lag_seconds gauge
sluice_store_lag_seconds 0.25
`))
	must(t, err)
	if got, err := said.ledgerOf("http"); err != nil || got != (ledger{received: 5, applied: 3, rejected: 2}) {
		t.Errorf("%+v, %v", got, err)
	}
	if lag, err := said.sum("sluice_store_lag_seconds", nil); err != nil || lag != 0.25 {
		t.Errorf("lag %v, %v", lag, err)
	}
	if _, err := said.ledgerOf("statsd_udp"); err == nil {
		t.Error("what is not there is read as 0")
	}
}

// A peer with the default socket buffer and occasional delays loses no line of the warm-up.
func TestWarmUpOfASmallBuffer(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer conn.Close()
	if err := conn.SetReadBuffer(212_992 / 2); err != nil { // which the kernel doubles
		t.Fatal(err)
	}
	to := subject{what: "peer", udp: conn.LocalAddr().(*net.UDPAddr).AddrPort(), warmUpLines: 5_000, warmUpRate: singleWarmUpRate, foreign: true}
	go func() {
		for buffer := make([]byte, maxDatagram); ; {
			time.Sleep(60 * time.Millisecond)
			if conn.SetReadDeadline(time.Now().Add(5*time.Millisecond)) != nil {
				return // it is closed
			}
			for err := error(nil); err == nil; {
				_, err = conn.Read(buffer)
			}
		}
	}()
	s, err := newFlood(newFloodLoad(lineScenarios[0]), 1, to.udp)
	must(t, err)
	defer s.close()
	if _, err := s.warmUp(t.Context(), to.warmUpPlan()); err != nil {
		t.Fatal(err)
	}
	if q, err := readQueue(to.udp); err != nil || q.drops > 0 {
		t.Errorf("%+v, %v: want nothing dropped", q, err)
	}
}

func TestWarmUpLossSaysWhy(t *testing.T) {
	if text := (subject{foreign: true}).warmUpLoss(16).Error(); !strings.Contains(text, "busy") || !strings.Contains(text, "socket buffer") {
		t.Errorf("%q: want both reasons", text)
	}
	if text := (subject{}).warmUpLoss(16).Error(); !strings.Contains(text, "busy") || strings.Contains(text, "buffer") {
		t.Errorf("%q: want that the machine is busy", text)
	}
}

// Aims are for the scenario without departures.
func TestAimsAreForTheStandardRun(t *testing.T) {
	for _, c := range []struct {
		scenario string
		change   func(*Config)
		departs  string
	}{
		{"tagged-10k", func(*Config) {}, "[]"},
		{"tagged-10k", func(c *Config) { c.Lines = 100_000_000 }, "[]"},
		{"tagged-10k", func(c *Config) { c.Lines = 999 }, "[--lines]"},
		{"tagged-10k", func(c *Config) { c.Rates = Rates{400_000} }, "[]"},
		{"tagged-10k", func(c *Config) { c.Rates, c.Lines = Rates{400_000}, 3_999_999 }, "[--lines]"},
		{"tagged-10k", func(c *Config) { c.Rates, c.Lines = Rates{400_000}, 4_000_000 }, "[]"},
		{"visible", func(c *Config) { c.Short, c.Rates = true, Rates{999} }, "[--short --rate]"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		cfg.Scenarios = []string{c.scenario}
		m := newMeasurement(cfg, cfg.loads()[0], processors{anyCPU, anyCPU}, &Machine{})
		if got := fmt.Sprint(m.departures); got != c.departs {
			t.Errorf("%s: departs by %s, want %s", c.scenario, got, c.departs)
		}
		figures := m.withAims([]Figure{{Name: "cost", Value: 1, Aim: Aim{Most: 2}}})
		if standard := c.departs == "[]"; (figures[0].Aim != Aim{}) != standard || (len(m.result.Notes) == 0) != standard {
			t.Errorf("%s by %s: aim %v and notes %q", c.scenario, c.departs, figures[0].Aim, m.result.Notes)
		}
	}
}

// A short run shows the sizes that it ran.
func TestShortRunsSaySo(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Short, cfg.Scenarios = true, []string{"largest-cluster"}
	var b strings.Builder
	r := newMeasurement(cfg, cfg.loads()[0], processors{anyCPU, anyCPU}, &Machine{}).result
	must(t, (&Report{Scenarios: []*Result{r}}).WriteTable(&b))
	if got := b.String(); !strings.Contains(got, "largest-cluster (short): 2000 pods") || strings.Contains(got, "150000") {
		t.Errorf("%s: want the sizes of the short run", got)
	}
	b.Reset()
	if err := (&Report{Scenarios: []*Result{r}}).WriteJSON(&b); err != nil || !strings.Contains(b.String(), `"short": true`) {
		t.Errorf("%v: want that it is short in %s", err, b.String())
	}
	cfg.Short, cfg.Rates = false, Rates{12_000}
	if got := cfg.about(largestScenario); !strings.HasSuffix(got, ", at 12,000 lines/s") {
		t.Errorf("%q: want the rate in it", got)
	}
}
