package loadtest

import (
	"errors"
	"fmt"
	"strings"
)

// Takes reports whether every setting that was made has an effect on the scenario. Validate rejects a
// scenario on which one has none.
func (c Config) Takes(s Scenario) bool { return len(c.unused(s)) == 0 }

// unused are faults of settings without an effect on the scenario.
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

// contradicted are faults of settings that others override.
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
