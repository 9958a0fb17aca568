package loadtest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Config selects the scenarios and sets the options of the measurement.
type Config struct {
	// Binary is the path of the sluice binary to measure.
	Binary string
	// Version is the version of that binary, for the report.
	Version string
	// Scenarios are the names of the scenarios to measure.
	Scenarios []string
	// Lines is the number of lines of one run, rounded up to whole datagrams; 0: set by the
	// scenario.
	Lines int
	// Rate is the load in lines per second; 0: set by the scenario.
	Rate int
	// Runs is the number of runs, each with a new server.
	Runs int
	// Search makes the load test find the highest rate without loss, instead of the cost of a line.
	Search bool
	// Target is the command line of another StatsD server, measured in place of Sluice. {udp}
	// stands for the port to listen on, {tcp} for a free port, and {config} for a copy of
	// TargetConfig.
	Target string
	// TargetConfig is a configuration file whose placeholders are filled in as in Target; empty:
	// none.
	TargetConfig string
	// Pin keeps the server on the first processor and the sender on the second, if there are two.
	Pin bool
	// Short selects a small size that finishes in seconds.
	Short bool
	// Progress receives a line per step of a run; nil: none.
	Progress io.Writer
}

// DefaultConfig measures tagged counters once, pinned.
func DefaultConfig() Config {
	return Config{Scenarios: Names()[:1], Runs: 1, Pin: true}
}

// Bounds against overflow, above any real load.
const (
	maxRuns  = 100
	maxLines = min(1_000_000_000_000, math.MaxInt)
	maxRate  = 1_000_000_000
)

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Binary == "" && c.Target == "" {
		faults = append(faults, errors.New("--binary is empty; must be the path of the sluice to measure"))
	}
	for i, name := range c.Scenarios {
		if _, ok := scenario(name); !ok {
			faults = append(faults, fmt.Errorf("scenario %q is unknown; must be one of %s", name, strings.Join(Names(), ", ")))
		}
		if slices.Contains(c.Scenarios[:i], name) {
			faults = append(faults, fmt.Errorf("scenario %q is given twice", name))
		}
	}
	if len(c.Scenarios) == 0 {
		faults = append(faults, fmt.Errorf("no scenario is given; must be one or more of %s", strings.Join(Names(), ", ")))
	}
	faults = append(faults, c.validateTarget()...)
	faults = append(faults, c.contradicted()...)
	for _, name := range c.Scenarios {
		if s, ok := scenario(name); ok {
			faults = append(faults, c.unused(s)...)
		}
	}
	if c.Lines < 0 || c.Lines > maxLines {
		faults = append(faults, fmt.Errorf("--lines is %d; must be 0 (set by the scenario) to %d", c.Lines, maxLines))
	}
	if c.Rate < 0 || c.Rate > maxRate {
		faults = append(faults, fmt.Errorf("--rate is %d; must be 0 (set by the scenario) to %d lines per second", c.Rate, maxRate))
	}
	if c.Runs < 1 || c.Runs > maxRuns {
		faults = append(faults, fmt.Errorf("--runs is %d; must be 1 to %d", c.Runs, maxRuns))
	}
	return errors.Join(faults...)
}

// validateTarget returns the faults of Target and TargetConfig.
func (c Config) validateTarget() (faults []error) {
	if c.Target != "" && c.TargetConfig == "" && !strings.Contains(c.Target, "{udp}") {
		faults = append(faults, fmt.Errorf("--target is %q; must contain {udp}, the port to listen on, or {config} with --target-config", c.Target))
	}
	if c.TargetConfig != "" && !strings.Contains(c.Target, "{config}") {
		faults = append(faults, errors.New("--target-config has no effect without {config} in --target"))
	}
	return faults
}

// Names returns the names of all scenarios, the default first.
func Names() []string {
	names := make([]string, len(scenarios))
	for i := range scenarios {
		names[i] = scenarios[i].Name
	}
	return names
}

func scenario(name string) (Scenario, bool) {
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return scenarios[i], true
}

// Takes reports whether every given setting has an effect on the scenario. Validate rejects
// settings without an effect.
func (c Config) Takes(s Scenario) bool { return len(c.unused(s)) == 0 }

// unused returns the faults of settings without an effect on the scenario.
func (c Config) unused(s Scenario) (faults []error) {
	for _, one := range []struct {
		flag         string
		given, taken bool
	}{
		{"--target", c.Target != "", s.SendsLines()},
		{"--search", c.Search, s.SendsLines()},
		{"--lines", c.Lines > 0, s.SendsLines()},
		{"--rate", c.Rate > 0, s.SendsLines() || s.TakesRate},
	} {
		if one.given && !one.taken {
			faults = append(faults, fmt.Errorf("%s has no effect on scenario %s, which takes %s", one.flag, s.Name, s.takes()))
		}
	}
	return faults
}

// contradicted returns the faults of settings that other settings override.
func (c Config) contradicted() (faults []error) {
	for _, one := range []struct {
		flag, beside string
		both         bool
	}{
		{"--lines", "--search", c.Search && c.Lines > 0},
		{"--rate", "--search", c.Search && c.Rate > 0},
		{"--target", "--search", c.Search && c.Target != ""},
		{"--short", "--lines", c.Short && c.Lines > 0},
	} {
		if one.both {
			faults = append(faults, errors.New(one.flag+" has no effect beside "+one.beside))
		}
	}
	return faults
}

// takes lists the flags that have an effect on the scenario.
func (s Scenario) takes() string {
	flags := []string{"--runs", "--short"}
	switch {
	case s.SendsLines():
		flags = append(flags, "--lines", "--rate", "--search", "--target")
	case s.TakesRate:
		flags = append(flags, "--rate")
	}
	return strings.Join(flags, ", ")
}
