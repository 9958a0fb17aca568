package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/store"
	"github.com/spf13/pflag"
)

// This binary is also sluice: for the store, which tries databases in a process of its own, and for commands
// that are copied from the banner.
func TestMain(m *testing.M) {
	if code, isTrial := store.TrialMain(); isTrial {
		os.Exit(code)
	}
	if os.Getenv(asSluice) != "" && !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.") }) {
		main()
	}
	os.Exit(m.Run())
}

// onFreePorts are flags with which any number of servers run beside each other.
func onFreePorts(dir string, more ...string) []string {
	return append([]string{"serve", "--standalone", "--data-dir", dir, "--statsd-udp", "127.0.0.1:0", "--statsd-tcp", "127.0.0.1:0",
		"--http-address", "127.0.0.1:0", "--api-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0", "--log-level", "error"}, more...)
}

// wantLines wants exactly these beginnings of lines among the errors, in any order, and a last line with a hint.
func wantLines(t *testing.T, errs string, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if !strings.HasPrefix(lines[len(lines)-1], "see 'sluice ") {
		t.Errorf("the last line is %q, want a hint where help is", lines[len(lines)-1])
	}
	lines = lines[:len(lines)-1]
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, w) }) {
			t.Errorf("no line with %q", w)
		}
	}
	if len(lines) != len(want) || t.Failed() {
		t.Errorf("%d faults, want %d:\n%s", len(lines), len(want), errs)
	}
}

func TestServeNamesEveryFault(t *testing.T) {
	code, out, errs := called(t, "serve", "--bogus", "x", "--max-series", "-5", "--windows", "10x", "--statsd-udp", "nowhere",
		"--http-max-body=lots", "-z", "--external-ttl", "never", "--log-format", "xml", "--ops-address", "8080", "extra", "--api-address")
	if code != exitUsage || out != "" {
		t.Errorf("exit code %d and output %q, want %d and none", code, out, exitUsage)
	}
	wantLines(t, errs,
		"unknown flag --bogus", "unknown flag -z", "--windows", "--http-max-body", "--external-ttl", "--api-address wants a value",
		`"extra"`, "--standalone is missing", "nowhere", "maxSeries: -5", "--log-format", "ops-address")
}

func TestServeWantsStandalone(t *testing.T) {
	code, _, errs := called(t, "serve")
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantLines(t, errs, "cluster is not there yet")
}

func TestConfigFileNamesEveryFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	text := "standalone: true\nmax-serie: 5\nmax-series: many\nwindows: [10s, {a: b}]\nlog-format: text\nlog-format: json\nhelp: true\nexternal-ttl: 0s\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs := called(t, "serve", "--config", file)
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantLines(t, errs, file+`:2: unknown setting "max-serie"`, file+":3: max-series", file+":4: windows",
		file+":6: log-format is set in line 5 already", file+`:7: unknown setting "help"`, "externalTTL")
}

func TestConfigFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"broken":   {"windows: [10s", "line "},
		"list":     {"- a\n- b\n", "want settings"},
		"two":      {"max-series: 5\n---\nmax-series: 6\n", "one YAML document"},
		"number":   {"5", "want settings"},
		"null":     {"# nothing\n", ""},
		"nullword": {"~\n", ""},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		faults := readConfigFile(file, newServe().Flags())
		if (c.want == "") != (len(faults) == 0) || (c.want != "" && !strings.Contains(faults[0].Error(), c.want)) {
			t.Errorf("%s: faults %v, want one with %q", name, faults, c.want)
		}
	}
	if faults := readConfigFile(filepath.Join(dir, "missing"), newServe().Flags()); len(faults) != 1 {
		t.Errorf("faults %v of a missing file, want one", faults)
	}
}

// Defaults come before the file, and the file before flags.
func TestFlagsGoBeforeTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("max-series: 7\nwindows: [5s, 10s]\nhttp-max-body: 1MiB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := newServe().Flags()
	if _, faults := readArguments(flags, []string{"--max-series", "9"}); len(faults) > 0 {
		t.Fatal(faults)
	}
	if faults := readConfigFile(file, flags); len(faults) > 0 {
		t.Fatal(faults)
	}
	for name, want := range map[string]string{"max-series": "9", "windows": "5s,10s", "http-max-body": "1MiB", "external-ttl": "24h0m0s"} {
		if got := flags.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestShortLifetimesAreWarnedOf(t *testing.T) {
	cfg := defaultConfig()
	if w := cfg.warnings(); len(w) != 0 {
		t.Errorf("warnings %q by default, want none", w)
	}
	cfg.table.ObjectTTL = cfg.table.ObjectTTL / 100
	if w := cfg.warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "object-ttl is 36s") {
		t.Errorf("warnings %q, want one of object-ttl", w)
	}
}

// What stops a start at run time is told in one line, and nothing is left running or locked.
func TestStartFaults(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()
	takenUDP, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer takenUDP.Close()
	foreign, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	for _, path := range []string{filepath.Join(foreign, "thesis.tex"), file} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"operations port": {onFreePorts(t.TempDir(), "--ops-address", port), []string{"in use", port}},
		"udp port":        {onFreePorts(t.TempDir(), "--statsd-udp", takenUDP.LocalAddr().String()), []string{"udp", takenUDP.LocalAddr().String()}},
		"http port":       {onFreePorts(t.TempDir(), "--http-address", port), []string{"in use", port}},
		"api port":        {onFreePorts(t.TempDir(), "--api-address", port), []string{"in use", port}},
		"foreign folder":  {onFreePorts(foreign), []string{foreign, "thesis.tex", "empty"}},
		"folder is file":  {onFreePorts(file), []string{file, "not a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := called(t, c.args...)
			if code != exitFailed || out != "" {
				t.Errorf("exit code %d and output %q, want %d and none", code, out, exitFailed)
			}
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "sluice serve: ") || strings.Count(errs, "sluice serve: ") != 1 {
				t.Errorf("want one line of why it does not start:\n%s", errs)
			}
			for _, want := range c.want {
				if !strings.Contains(last, want) {
					t.Errorf("%q does not say %q", last, want)
				}
			}
		})
	}
}

// A data folder whose start failed is free again.
func TestFailedStartLetsGo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if code, _, _ := called(t, onFreePorts(dir, "--api-address", taken.Addr().String())...); code != exitFailed {
		t.Fatalf("exit code %d, want %d", code, exitFailed)
	}
	_ = taken.Close()
	p := started(t, dir)
	if ok, detail := p.store.Detail(); !ok || strings.Contains(detail, "empty") {
		t.Errorf("the store says %q: want it to go on with what is there", detail)
	}
}

// started wires a whole standalone server and runs it until the test ends.
func started(t *testing.T, dir string, more ...string) *dataPath {
	t.Helper()
	cfg, flags := defaultConfig(), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	cfg.bind(flags)
	args := onFreePorts(dir, more...)[1:]
	if _, faults := readArguments(flags, args); len(faults) > 0 {
		t.Fatal(faults)
	}
	cfg.complete()
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p, err := wire(ctx, cfg, newLogger(os.Stderr, cfg.log))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}
