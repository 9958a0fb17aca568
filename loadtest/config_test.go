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
	for _, want := range []string{"--binary is empty", `scenario "tagged-10" is unknown; must be one of tagged-10k, plain-10k, timers-10k, single-10k`, "--lines is -1", "--rate is -1", "--runs is 0"} {
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
		{func(c *Config) { c.Target = "peer" }, `--target is "peer"; must contain {udp}`},
		{func(c *Config) { c.Target, c.TargetConfig = "peer {udp}", "peer.conf" }, "--target-config has no effect without {config}"},
		{func(c *Config) { c.TargetConfig = "peer.conf" }, "--target-config has no effect without {config}"},
		{func(c *Config) { c.Scenarios = append(c.Scenarios, c.Scenarios[0]) }, "is given twice"},
		{func(c *Config) { c.Scenarios = nil }, "no scenario is given"},
		{func(c *Config) { c.Search, c.Scenarios = true, []string{"churn"} }, "--search has no effect on scenario churn"},
		{func(c *Config) { c.Lines, c.Scenarios = 1000, []string{"push-5k"} }, "--lines has no effect on scenario push-5k, which takes --runs, --short"},
		{func(c *Config) { c.Rate, c.Scenarios = 1000, []string{"restart-750k"} }, "--rate has no effect on scenario restart-750k, which takes --runs, --short"},
		{func(c *Config) { c.Rate, c.Scenarios = 1000, []string{"visible"} }, ""},
		{func(c *Config) { c.Search, c.Target = true, "peer {udp}" }, "--target has no effect beside --search"},
		{func(c *Config) { c.Search, c.Lines = true, 1000 }, "--lines has no effect beside --search"},
		{func(c *Config) { c.Search, c.Rate = true, 1000 }, "--rate has no effect beside --search"},
		{func(c *Config) { c.Short, c.Lines = true, 1000 }, "--short has no effect beside --lines"},
		{func(c *Config) { c.Search, c.Short = true, true }, ""},
		{func(c *Config) { c.Lines = math.MaxInt }, "--lines is 9223372036854775807; must be 0"},
		{func(c *Config) { c.Rate = math.MaxInt }, "--rate is 9223372036854775807; must be 0"},
		{func(c *Config) { c.Target, c.Scenarios = "peer {udp}", []string{"churn"} }, "--target has no effect on scenario churn"},
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
