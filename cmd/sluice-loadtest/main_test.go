package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/loadtest"
)

var update = flag.Bool("update", false, "write the golden file instead of comparing with it")

// called runs one command line.
func called(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestHelp(t *testing.T) {
	code, out, errs := called(t, "--help")
	if code != exitOK || errs != "" {
		t.Errorf("exit code %d, errors %q: want 0 and none", code, errs)
	}
	golden := filepath.Join("testdata", "help.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != out {
		t.Errorf("%v: help differs from %s (go test -update writes it):\n%s", err, golden, out)
	}
}

func TestUsageNamesAllFaults(t *testing.T) {
	code, out, errs := called(t, "no-such", "plain-10k", "plain-10k", "--binary", "x", "--runs", "0", "-o", "xml", "--lines", "-1")
	if code != exitUsage || out != "" {
		t.Errorf("exit code %d, output %q: want %d and none", code, out, exitUsage)
	}
	for _, want := range []string{
		`scenario "no-such" is unknown`, `scenario "plain-10k" is given twice`, "--runs is 0; must be 1 to", `--output is "xml"`, "--lines is -1",
	} {
		if !strings.Contains(errs, "sluice-loadtest: "+want) {
			t.Errorf("errors %q: want one of %q", errs, want)
		}
	}
}

func TestUnknownFlagIsAUsageError(t *testing.T) {
	if code, out, errs := called(t, "--no-such"); code != exitUsage || out != "" || !strings.Contains(errs, "unknown flag: --no-such") {
		t.Errorf("exit code %d, output %q, errors %q: want %d and the flag", code, out, errs, exitUsage)
	}
}

// A flag without effect is an error.
func TestFlagsWithoutEffect(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"churn", "--peers", "../../loadtest/peers.yaml"}, "--peers has no effect on scenario churn"},
		{[]string{"--peers", "/no/such/file"}, "--peers: open /no/such/file: "},
		{[]string{"push-5k", "--lines", "1000", "--rate", "10"}, "--rate has no effect on scenario push-5k"},
		{[]string{"all", "--short", "--lines", "1000"}, "--short has no effect beside --lines"},
		{[]string{"visible", "--rate", "10,max"}, "--rate is 10,max; must be one number for scenario visible"},
		{[]string{"--rate", "10,fast"}, `invalid argument "10,fast" for "--rate" flag: rate is "fast"; must be max, or 1 to`},
	} {
		code, out, errs := called(t, append(c.args, "--binary", "x")...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, output %q, errors %q: want %d, none, and %q", c.args, code, out, errs, exitUsage, c.want)
		}
	}
}

// "all" stands for the scenarios that take every flag that was set.
func TestAll(t *testing.T) {
	for _, c := range []struct {
		change    func(*loadtest.Config)
		has, lack string
	}{
		{func(*loadtest.Config) {}, "push-5k", "none"},
		{func(cfg *loadtest.Config) { cfg.Rates = loadtest.Rates{10} }, "visible", "push-5k"},
		{func(cfg *loadtest.Config) { cfg.Rates = loadtest.Rates{10, loadtest.FlatOut} }, "hot-key", "visible"},
		{func(cfg *loadtest.Config) { cfg.Peers = []loadtest.Peer{{Name: "a"}} }, "hot-key", "visible"},
		{func(cfg *loadtest.Config) { cfg.Lines = 10 }, "hot-key", "visible"},
	} {
		cfg := loadtest.DefaultConfig()
		c.change(&cfg)
		if names := all(cfg); !slices.Contains(names, c.has) || slices.Contains(names, c.lack) {
			t.Errorf("%v: want %s and no %s", names, c.has, c.lack)
		}
	}
}
