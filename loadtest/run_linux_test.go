package loadtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// small is a load for a busy machine.
func small(t *testing.T, scenario string) Config {
	return Config{Binary: sluice(t), Scenarios: []string{scenario}, Lines: 200_000, Rate: 400_000, Runs: 1}
}

func TestRunsAddUp(t *testing.T) {
	for _, scenario := range []string{"tagged-10k", "plain-10k", "timers-10k", "single-10k", "hot-key", "client"} {
		cfg := small(t, scenario)
		if scenario == "single-10k" {
			cfg.Lines, cfg.Rate = 20_000, 40_000
		}
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			r, err := Measure(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
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
	cfg.Lines, cfg.Rate = 600_000, 0
	m := newMeasurement(cfg, "mixed-750k", processors{anyCPU, anyCPU}, &Machine{})
	m.scenario.series = newMixed(5, 20)
	r, err := m.all(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range r.Runs {
		if run.Server.Taken+run.Server.DroppedDatagrams*mixedLines != run.Server.Sent {
			t.Errorf("%+v: want sent = taken + dropped", run.Server)
		}
	}
}

func TestSearch(t *testing.T) {
	cfg := small(t, "plain-10k")
	cfg.Search, cfg.Short, cfg.Lines, cfg.Rate = true, true, 0, 0
	r, err := Measure(t.Context(), cfg)
	if err != nil && strings.Contains(err.Error(), "at every rate") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := r.Scenarios[0].Figures
	if len(got) != 2 || got[0].Name != "lossless_rate" || got[0].Median <= 0 || got[1].Median <= 0 || len(r.Scenarios[0].Runs) != 0 || r.Scenarios[0].Load.SearchSteps == 0 {
		t.Errorf("%+v: want two rates and no runs", got)
	}
}

// Any server may be the target, also sluice.
func TestTarget(t *testing.T) {
	cfg := small(t, "plain-10k")
	cfg.TargetConfig = filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(cfg.TargetConfig, []byte("statsd-udp: 127.0.0.1:{udp}\nops-address: 127.0.0.1:{tcp}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Target = cfg.Binary + " serve --standalone --config {config} --data-dir '" + t.TempDir() + "/data' --statsd-tcp= --http-address=127.0.0.1:0 --api-address=127.0.0.1:0"
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Scenarios[0]
	if s.Load.Target != cfg.Target || s.Runs[0].Server.Taken == 0 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "no accounting") {
		t.Errorf("%+v: want a run of the target, and that its accounting was not checked", s)
	}
	cfg.Target, cfg.TargetConfig = "echo {udp}", ""
	if _, err := Measure(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("error %v: want that it ended by itself", err)
	}
}

func TestChurn(t *testing.T) {
	cfg := small(t, "churn")
	cfg.Short, cfg.Lines, cfg.Rate = true, 0, 0
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Scenarios[0].Figures {
		if f.Median <= 0 && f.Name != "file_bytes_per_series" {
			t.Errorf("%+v: want some", f)
		}
	}
}

// A server drops datagrams flat out; the accounting must add up all the same.
func TestFlatOutAddsUp(t *testing.T) {
	cfg := small(t, "plain-10k")
	cfg.Rate, cfg.Lines, cfg.Pin = 0, 1_000_000, true
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range r.Scenarios[0].Runs {
		if run.Server.Taken+run.Server.DroppedDatagrams*int64(r.Scenarios[0].Load.LinesPerDatagram) != run.Server.Sent {
			t.Errorf("%+v: want sent = taken + dropped", run.Server)
		}
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	cfg := small(t, "plain-10k")
	cfg.Binary = "/bin/false"
	if _, err := Measure(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("error %v: want that it ended by itself", err)
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
	if _, err := Measure(ctx, cfg); err == nil || err.Error() != "plain-10k: interrupted: 0 of 1 runs were finished" {
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
