package loadtest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
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
	// Rates are the loads of a scenario of lines, each measured in turn; empty: set by the
	// scenario. Another scenario takes one rate, that of the background load.
	Rates Rates
	// Runs is the number of runs, each with a new server.
	Runs int
	// Peers are other StatsD servers, measured in turn with Sluice. A peer that is not installed is
	// skipped.
	Peers []Peer
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
)

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Binary == "" {
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
	if c.Short && c.Lines > 0 {
		faults = append(faults, errors.New("--short has no effect beside --lines"))
	}
	for _, name := range c.Scenarios {
		if s, ok := scenario(name); ok {
			faults = append(faults, c.unused(s)...)
		}
	}
	if c.Lines < 0 || c.Lines > maxLines {
		faults = append(faults, fmt.Errorf("--lines is %d; must be 0 (set by the scenario) to %d", c.Lines, maxLines))
	}
	if c.Runs < 1 || c.Runs > maxRuns {
		faults = append(faults, fmt.Errorf("--runs is %d; must be 1 to %d", c.Runs, maxRuns))
	}
	return errors.Join(faults...)
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
		{"--peers", len(c.Peers) > 0, s.SendsLines()},
		{"--lines", c.Lines > 0, s.SendsLines()},
		{"--rate", len(c.Rates) > 0, s.SendsLines() || s.TakesRate},
	} {
		if one.given && !one.taken {
			faults = append(faults, fmt.Errorf("%s has no effect on scenario %s, which takes %s", one.flag, s.Name, s.takes()))
		}
	}
	if s.TakesRate && (len(c.Rates) > 1 || slices.Contains(c.Rates, FlatOut)) {
		faults = append(faults, fmt.Errorf("--rate is %s; must be one number for scenario %s", &c.Rates, s.Name))
	}
	return faults
}

// takes lists the flags that have an effect on the scenario.
func (s Scenario) takes() string {
	flags := []string{"--runs", "--short"}
	switch {
	case s.SendsLines():
		flags = append(flags, "--lines", "--rate", "--peers")
	case s.TakesRate:
		flags = append(flags, "--rate")
	}
	return strings.Join(flags, ", ")
}

// scenarioAtRate is a scenario at one rate.
type scenarioAtRate struct {
	Scenario
	rate int
}

func (s scenarioAtRate) title() string {
	if s.SendsLines() {
		return s.Name + ", " + rateText(s.rate)
	}
	return s.Name
}

// loads returns every scenario at every rate.
func (c Config) loads() (all []scenarioAtRate) {
	for _, name := range c.Scenarios {
		s, _ := scenario(name)
		for _, rate := range c.rates(s) {
			all = append(all, scenarioAtRate{s, rate})
		}
	}
	return all
}

// rates returns the rates at which a scenario is measured.
func (c Config) rates(s Scenario) Rates {
	if len(c.Rates) > 0 {
		return c.Rates
	}
	return Rates{s.Rate}
}

// FlatOut is the rate of a sender that sends as fast as it can.
const FlatOut = 0

// flatOutWord is FlatOut in a list of rates.
const flatOutWord = "max"

// maxRate is a bound against overflow, above any real load.
const maxRate = 1_000_000_000

// pacedSeconds is the time of a paced run: long enough for several flushes and for every other
// server's flush.
const pacedSeconds = 10

// lines returns the default number of lines of a run at a rate.
func (s Scenario) lines(rate int) int {
	if rate == FlatOut {
		return s.Lines
	}
	return pacedSeconds * rate
}

// Rates are loads in lines per second. It is a flag: rates separated by commas.
type Rates []int

// Set parses a list such as "20000,400000,max".
func (r *Rates) Set(text string) error {
	var rates Rates
	for _, word := range strings.Split(text, ",") {
		rate, err := parseRate(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		if slices.Contains(rates, rate) {
			return fmt.Errorf("rate %q is given twice", word)
		}
		rates = append(rates, rate)
	}
	*r = rates
	return nil
}

func parseRate(word string) (int, error) {
	if word == flatOutWord {
		return FlatOut, nil
	}
	rate, err := strconv.Atoi(word)
	if err != nil || rate < 1 || rate > maxRate {
		return 0, fmt.Errorf("rate is %q; must be %s, or 1 to %d lines per second", word, flatOutWord, maxRate)
	}
	return rate, nil
}

func (r *Rates) String() string {
	words := make([]string, len(*r))
	for i, rate := range *r {
		words[i] = strconv.Itoa(rate)
		if rate == FlatOut {
			words[i] = flatOutWord
		}
	}
	return strings.Join(words, ",")
}

// Type is the placeholder in the help.
func (r *Rates) Type() string { return "list" }

// rateText describes a rate.
func rateText(rate int) string {
	if rate == FlatOut {
		return "flat out"
	}
	return grouped(float64(rate)) + " lines/s"
}
