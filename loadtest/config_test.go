package loadtest

import (
	"math"
	"strings"
	"testing"
)

func TestConfigNamesAllFaults(t *testing.T) {
	good := DefaultConfig()
	good.Binary = "sluice"
	if err := good.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	err := Config{Scenarios: []string{"tagged-10"}, Lines: -1, Rate: -1}.Validate()
	for _, want := range []string{"binary: ", `scenario: "tagged-10": want tagged-10k, plain-10k, timers-10k, single-10k`, "lines: -1", "rate: -1", "runs: 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("faults %v: want one of %q", err, want)
		}
	}
}

func TestConfigOfTargets(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		wrong  string // empty: nothing
	}{
		{func(c *Config) { c.Target = "peer --udp={udp}" }, ""},
		{func(c *Config) { c.Target, c.TargetConfig = "peer --config={config}", "peer.conf" }, ""},
		{func(c *Config) { c.Target = "peer" }, "target: \"peer\": want {udp}"},
		{func(c *Config) { c.Target, c.TargetConfig = "peer {udp}", "peer.conf" }, "target-config: want {config}"},
		{func(c *Config) { c.TargetConfig = "peer.conf" }, "target-config: want {config}"},
		{func(c *Config) { c.Scenarios = append(c.Scenarios, c.Scenarios[0]) }, "is there twice"},
		{func(c *Config) { c.Scenarios = nil }, "scenario: none"},
		{func(c *Config) { c.Search, c.Scenarios = true, []string{"churn"} }, "search: scenario churn"},
		{func(c *Config) { c.Lines, c.Scenarios = 1000, []string{"push-5k"} }, "lines: scenario push-5k has no number of lines: it takes --runs, --short, --pin"},
		{func(c *Config) { c.Rate, c.Scenarios = 1000, []string{"restart-750k"} }, "rate: scenario restart-750k has no rate to set: it takes --runs, --short, --pin"},
		{func(c *Config) { c.Rate, c.Scenarios = 1000, []string{"visible"} }, ""},
		{func(c *Config) { c.Client, c.Scenarios = true, []string{"visible"} }, "client: scenario visible sends in a way of its own: it takes --runs, --short, --pin, --rate"},
		{func(c *Config) { c.Search, c.Lines = true, 1000 }, "lines: a search sends for a time"},
		{func(c *Config) { c.Search, c.Rate = true, 1000 }, "rate: a search looks for it"},
		{func(c *Config) { c.Short, c.Lines = true, 1000 }, "short: --lines says"},
		{func(c *Config) { c.Search, c.Short, c.Client = true, true, true }, ""},
		{func(c *Config) { c.Lines = math.MaxInt }, "lines: 9223372036854775807: want 0"},
		{func(c *Config) { c.Rate = math.MaxInt }, "rate: 9223372036854775807 lines a second: want 0"},
		{func(c *Config) { c.Target, c.Scenarios = "peer {udp}", []string{"churn"} }, "target: scenario churn"},
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
