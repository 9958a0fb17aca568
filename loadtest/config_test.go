package loadtest

import (
	"math"
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
