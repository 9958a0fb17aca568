package limit

import (
	"errors"
	"fmt"
	"strings"
)

// Patterns match the names of metrics to ignore; "*" stands for any text.
type Patterns struct{ parts [][]string }

// DefaultIgnored matches the 15 series that Datadog's clients send about themselves (datadog-go,
// "Client side telemetry").
var DefaultIgnored = []string{"datadog.dogstatsd.client.*"}

// ParsePatterns parses patterns, and returns all faults at once.
func ParsePatterns(patterns []string) (*Patterns, error) {
	p := new(Patterns)
	var faults []error
	for _, one := range patterns {
		if strings.Trim(one, "*") == "" {
			faults = append(faults, fmt.Errorf("pattern %q matches every metric; must contain part of a name, as in debug.*",
				one))
			continue
		}
		p.parts = append(p.parts, strings.Split(one, "*"))
	}
	return p, errors.Join(faults...)
}

// Match reports whether a pattern matches the whole name.
func (p *Patterns) Match(name string) bool {
	for _, parts := range p.parts {
		if covers(parts, name) {
			return true
		}
	}
	return false
}

// covers matches the texts between the stars: the first and the last at the ends, the others in
// order, each as early as possible.
func covers(parts []string, name string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return name == first
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}
