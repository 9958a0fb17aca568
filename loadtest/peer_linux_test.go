package loadtest

import (
	"fmt"
	"strings"
	"testing"
)

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
