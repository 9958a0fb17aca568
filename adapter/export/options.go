package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Naming is how series are named.
type Naming uint8

// The namings.
const (
	// Prometheus keeps the pushed names and ends counters in "_total".
	Prometheus Naming = iota
	// StatsDExporter names and scales as statsd_exporter does without a mapping: names have
	// letters, digits, "_" and ":" only, and timers are in seconds.
	StatsDExporter
)

var namings = [...]string{"prometheus", "statsd_exporter"}

// ParseNaming parses the name of a naming.
func ParseNaming(s string) (Naming, error) {
	if i := slices.Index(namings[:], s); i >= 0 {
		return Naming(i), nil
	}
	return 0, fmt.Errorf("naming is %q; must be %s", s, strings.Join(namings[:], " or "))
}

// Timers is how timers are written.
type Timers uint8

// The forms of timers.
const (
	// Summaries have quantiles over the default window, and count and sum since the birth.
	Summaries Timers = iota
	// Histograms are native histograms, which only Protobuf expresses; text has count and sum.
	Histograms
)

var timerForms = [...]string{"summary", "histogram"}

// ParseTimers parses the name of a form.
func ParseTimers(s string) (Timers, error) {
	if i := slices.Index(timerForms[:], s); i >= 0 {
		return Timers(i), nil
	}
	return 0, fmt.Errorf("timers is %q; must be %s", s, strings.Join(timerForms[:], " or "))
}

// Options select and name the series of a page.
type Options struct {
	// Readable reports whether a series of an external metric is on the page; nil: all are.
	Readable func(*metric.Family, metric.Kind, metric.Labels) bool
	// Match are patterns of pushed names, of which one must match; "*" matches any part of a name.
	// Empty: all.
	Match []string
	// Namespaces select series; empty: all, and those of no namespace.
	Namespaces []string
	// WithoutTotals leaves out counters and timers.
	WithoutTotals bool
	Naming        Naming
	Timers        Timers
	// Seconds are patterns of the names of timers that are pushed in milliseconds and exported in
	// seconds.
	Seconds  []string
	Format   exposition.Format
	Escaping exposition.Escaping
}

// matchesAny reports whether one of some patterns matches a name.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// matches reports whether a pattern matches a whole name. It takes time in proportion to the
// product of both lengths at most.
func matches(pattern, name string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	for ok {
		piece, more, again := strings.Cut(rest, "*")
		if !again {
			return strings.HasSuffix(name, piece)
		}
		_, name, ok = strings.Cut(name, piece)
		rest = more
	}
	return false
}
