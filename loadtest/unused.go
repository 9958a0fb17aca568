package loadtest

import (
	"errors"
	"fmt"
	"strings"
)

// Takes is whether the scenario does what is asked for. One that would leave some of it out is refused by Validate.
func (c Config) Takes(s Scenario) bool { return len(c.unused(s)) == 0 }

// unused are faults of settings that would change nothing in the scenario.
func (c Config) unused(s Scenario) (faults []error) {
	for _, one := range []struct {
		setting, why string
		given, taken bool
	}{
		{"target", "measures more than StatsD", c.Target != "", s.SendsLines()},
		{"search", "has no rate to look for", c.Search, s.SendsLines()},
		{"client", "sends in a way of its own", c.Client, s.SendsLines()},
		{"lines", "has no number of lines", c.Lines > 0, s.SendsLines()},
		{"rate", "has no rate to set", c.Rate > 0, s.SendsLines() || s.TakesRate},
	} {
		if one.given && !one.taken {
			faults = append(faults, fmt.Errorf("%s: scenario %s %s: it takes %s", one.setting, s.Name, one.why, s.takes()))
		}
	}
	return faults
}

// contradicted are faults of settings that others make void.
func (c Config) contradicted() (faults []error) {
	if c.Search && c.Lines > 0 {
		faults = append(faults, errors.New("lines: a search sends for a time, not a number of lines: want --search or --lines"))
	}
	if c.Search && c.Rate > 0 {
		faults = append(faults, errors.New("rate: a search looks for it: want --search or --rate"))
	}
	if c.Short && c.Lines > 0 {
		faults = append(faults, errors.New("short: --lines says how many: want --short or --lines"))
	}
	return faults
}

// takes are the flags that change something in the scenario.
func (s Scenario) takes() string {
	flags := []string{"--runs", "--short", "--pin"}
	switch {
	case s.SendsLines():
		flags = append(flags, "--lines", "--rate", "--client", "--search", "--target")
	case s.TakesRate:
		flags = append(flags, "--rate")
	}
	return strings.Join(flags, ", ")
}
