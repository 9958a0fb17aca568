package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/loadtest"
)

func TestLoadtestHelp(t *testing.T) {
	code, out, errs := called(t, "loadtest", "--help")
	if code != exitOK || errs != "" {
		t.Errorf("exit code %d, errors %q: want 0 and none", code, errs)
	}
	held(t, filepath.Join("testdata", "loadtest_help.txt"), out)
}

func TestLoadtestNamesAllFaults(t *testing.T) {
	code, out, errs := called(t, "loadtest", "no-such", "plain-10k", "plain-10k", "--runs", "0", "-o", "xml", "--rate", "-1")
	if code != exitUsage || out != "" {
		t.Errorf("exit code %d, output %q: want %d and none", code, out, exitUsage)
	}
	for _, want := range []string{`scenario: "no-such"`, `scenario: "plain-10k": is there twice`, "runs: 0", `--output: "xml"`, "rate: -1"} {
		if !strings.Contains(errs, want) {
			t.Errorf("errors %q: want one of %q", errs, want)
		}
	}
}

// What would change nothing is not taken, and the message says what would.
func TestLoadtestRefusesFlagsThatChangeNothing(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"loadtest", "churn", "--client"}, "--client: scenario churn sends in a way of its own"},
		{[]string{"loadtest", "push-5k", "--lines", "1000", "--rate", "10"}, "--rate: scenario push-5k has no rate to set"},
		{[]string{"loadtest", "all", "--short", "--lines", "1000"}, "--short: --lines says how many, want --short or --lines"},
		{[]string{"loadtest", "--search", "--rate", "10"}, "--rate: a search looks for it, want --search or --rate"},
		{[]string{"loadtest", "--rate", "9223372036854775807"}, "--rate: 9223372036854775807 lines a second, want 0"},
	} {
		code, out, errs := called(t, c.args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, output %q, errors %q: want %d, none, and %q", c.args, code, out, errs, exitUsage, c.want)
		}
	}
}

// All are those that take what is asked for.
func TestLoadtestAll(t *testing.T) {
	for _, c := range []struct {
		change    func(*loadtest.Config)
		has, lack string
	}{
		{func(*loadtest.Config) {}, "push-5k", "none"},
		{func(cfg *loadtest.Config) { cfg.Rate = 10 }, "visible", "push-5k"},
		{func(cfg *loadtest.Config) { cfg.Search = true }, "hot-key", "visible"},
		{func(cfg *loadtest.Config) { cfg.Lines = 10 }, "hot-key", "visible"},
	} {
		cfg := loadtest.DefaultConfig()
		c.change(&cfg)
		if names := all(cfg); !slices.Contains(names, c.has) || slices.Contains(names, c.lack) {
			t.Errorf("%v: want %s and no %s", names, c.has, c.lack)
		}
	}
}
