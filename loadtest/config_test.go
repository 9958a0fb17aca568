package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestConfigNamesAllFaults(t *testing.T) {
	good := DefaultConfig()
	good.Binary = "sluice"
	if err := good.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	err := Config{Scenarios: []string{"tagged-10"}, Lines: -1}.Validate()
	for _, want := range []string{"--binary is empty", `scenario "tagged-10" is unknown; must be one of tagged-10k, plain-10k, timers-10k, single-10k`, "--lines is -1", "--runs is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("faults %v: want one of %q", err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		wrong  string // empty: nothing
	}{
		{func(c *Config) { c.Peers = []Peer{{Name: "a"}} }, ""},
		{func(c *Config) { c.Peers, c.Scenarios = []Peer{{Name: "a"}}, []string{"churn"} }, "--peers has no effect on scenario churn"},
		{func(c *Config) { c.Scenarios = append(c.Scenarios, c.Scenarios[0]) }, "is given twice"},
		{func(c *Config) { c.Scenarios = nil }, "no scenario is given"},
		{func(c *Config) { c.Lines, c.Scenarios = 1000, []string{"push-5k"} }, "--lines has no effect on scenario push-5k, which takes --runs, --short"},
		{func(c *Config) { c.Rates, c.Scenarios = Rates{1000}, []string{"restart-750k"} }, "--rate has no effect on scenario restart-750k, which takes --runs, --short"},
		{func(c *Config) { c.Rates, c.Scenarios = Rates{1000}, []string{"visible"} }, ""},
		{func(c *Config) { c.Rates, c.Scenarios = Rates{1000, 2000}, []string{"visible"} }, "--rate is 1000,2000; must be one number for scenario visible"},
		{func(c *Config) { c.Rates, c.Scenarios = Rates{FlatOut}, []string{"visible"} }, "--rate is max; must be one number for scenario visible"},
		{func(c *Config) { c.Rates = Rates{1000, FlatOut} }, ""},
		{func(c *Config) { c.Short, c.Lines = true, 1000 }, "--short has no effect beside --lines"},
		{func(c *Config) { c.Lines = math.MaxInt }, "--lines is 9223372036854775807; must be 0"},
	} {
		cfg := DefaultConfig()
		cfg.Binary = "sluice"
		c.change(&cfg)
		err := cfg.Validate()
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%+v: fault %v, want %q", cfg, err, c.wrong)
		}
	}
}

// A scenario of lines is measured at every rate, or else at the rate of the scenario.
func TestLoads(t *testing.T) {
	cfg := Config{Scenarios: []string{"tagged-10k", "single-10k", "visible"}}
	titles := func() (all string) {
		for _, load := range cfg.loads() {
			all += load.title() + "; "
		}
		return all
	}
	if got, want := titles(), "tagged-10k, flat out; single-10k, 200,000 lines/s; visible; "; got != want {
		t.Errorf("%s: want %s", got, want)
	}
	cfg.Scenarios, cfg.Rates = cfg.Scenarios[:2], Rates{20_000, FlatOut}
	if got, want := titles(), "tagged-10k, 20,000 lines/s; tagged-10k, flat out; single-10k, 20,000 lines/s; single-10k, flat out; "; got != want {
		t.Errorf("%s: want %s", got, want)
	}
}

func TestRates(t *testing.T) {
	var r Rates
	if err := r.Set("20000, 100000,400000,max"); err != nil || !slices.Equal(r, Rates{20_000, 100_000, 400_000, FlatOut}) {
		t.Errorf("%v, %v: want three rates and flat out", r, err)
	}
	if got := r.String(); got != "20000,100000,400000,max" {
		t.Errorf("written %q", got)
	}
	for text, want := range map[string]string{
		"":                    `rate is ""; must be max, or 1 to`,
		"0":                   `rate is "0"; must be`,
		"-1":                  `rate is "-1"; must be`,
		"20000,,max":          `rate is ""; must be`,
		"20k":                 `rate is "20k"; must be`,
		"1000000001":          `rate is "1000000001"; must be`,
		"9223372036854775808": `rate is "9223372036854775808"; must be`,
		"20000,max,20000":     `rate "20000" is given twice`,
	} {
		if err := r.Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if len(r) != 4 {
		t.Errorf("%v: want that a wrong list changes nothing", r)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestInterruptionSaysHowFarItWas(t *testing.T) {
	ended := &url.Error{Op: "Get", URL: "http://127.0.0.1/metrics", Err: context.Canceled}
	stuck := errors.New("sluice was still running 30s after it was asked to end")
	for want, err := range map[string]error{
		"interrupted: 2 of 5 runs were finished":                   fmt.Errorf("among 10 pods: %w", errors.Join(ended, nil)),
		"interrupted: 2 of 5 runs were finished\n" + stuck.Error(): errors.Join(ended, fmt.Errorf("again: %w", errors.Join(context.Canceled, stuck))),
	} {
		i := &interruption{finished: 2, of: 5, besides: besidesTheEnd(err)}
		if i.Error() != want || !errors.Is(i, context.Canceled) {
			t.Errorf("%q, want %q", i, want)
		}
	}
}

const goodPeer = "name: a, command: [a, '{udp}'], scenarios: [plain-10k]"

func TestPeersFile(t *testing.T) {
	for _, text := range []string{
		"- {" + goodPeer + "}",
		"- {name: a, command: [a, '{config}'], config: 'port {udp}', scenarios: [plain-10k, single-10k]}",
		`[{"name": "a", "command": ["a", "{udp}"], "scenarios": ["plain-10k"]}]`,
	} {
		if peers, err := parsePeers([]byte(text)); err != nil || len(peers) != 1 || !peers[0].takes("plain-10k") || peers[0].takes("tagged-10k") {
			t.Errorf("%s: %+v, %v: want a peer that takes plain-10k", text, peers, err)
		}
	}
	for text, want := range map[string]string{
		"":                                    "no peer; must be a list",
		"[]":                                  "no peer; must be a list",
		"name: a":                             "cannot unmarshal",
		"- {" + goodPeer + ", rate: 5}":       "field rate not found",
		"- {name: a, scenarios: [plain-10k]}": "command is empty",
		"- {name: a, command: [''], scenarios: [plain-10k]}":                             "command is empty",
		"- {name: a, command: 'a {udp}', scenarios: [plain-10k]}":                        "cannot unmarshal",
		"- {name: a, command: [a], scenarios: [plain-10k]}":                              "neither command nor config has {udp}",
		"- {name: a, command: [a, '{config}'], config: x, scenarios: [plain-10k]}":       "neither command nor config has {udp}",
		"- {name: a, command: [a, '{udp}', '{config}'], scenarios: [plain-10k]}":         "config is empty",
		"- {name: a, command: [a, '{udp}'], config: '{udp}', scenarios: [plain-10k]}":    "config has no effect",
		"- {name: a, command: [a, '{udp}']}":                                             "scenarios is empty",
		"- {name: a, command: [a, '{udp}'], scenarios: [churn]}":                         `scenario "churn" is unknown, or has no load of lines`,
		"- {name: sluice, command: [a, '{udp}'], scenarios: [plain-10k]}":                `name is "sluice"`,
		"- {" + goodPeer + "}\n- {" + goodPeer + "}":                                     `peer 2 ("a"): name is "a", as of a peer before`,
		"- {command: [a, '{udp}'], scenarios: [plain-10k]}\n- {name: b, scenarios: [x]}": `peer 2 ("b"): command is empty`,
	} {
		if _, err := parsePeers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if _, err := ReadPeers(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is no error")
	}
}

// The file that "make figures" uses.
func TestOurPeersFile(t *testing.T) {
	peers, err := ReadPeers("peers.yaml")
	if err != nil || len(peers) < 4 {
		t.Errorf("%+v, %v: want four peers", peers, err)
	}
}

func TestPeersThatAreNotInstalledAreSkipped(t *testing.T) {
	installed, skipped := installedPeers([]Peer{{Name: "a", Command: []string{"/no/such/program"}}, {Name: "b", Command: []string{"/bin/sh"}}})
	if len(installed) != 1 || installed[0].Name != "b" {
		t.Errorf("%+v: want b", installed)
	}
	if len(skipped) != 1 || !strings.Contains(skipped[0], "a is skipped: ") {
		t.Errorf("%q: want that a is skipped", skipped)
	}
}
