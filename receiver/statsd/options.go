package statsd

import (
	"fmt"
	"slices"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
)

// Dialect selects the meaning of text on which servers differ.
type Dialect uint8

// The dialects. StatsD is the default; the last three add a style of tags within the name.
const (
	StatsD    Dialect = iota // a gauge's "+n" and "-n" shift it
	DogStatsD                // a gauge's "+n" and "-n" are absolute
	Influx                   // StatsD, and "name,key=value:1|c"
	Librato                  // StatsD, and "name#key=value:1|c"
	SignalFx                 // StatsD, and "na[key=value]me:1|c"
)

var dialectNames = [...]string{"statsd", "dogstatsd", "influx", "librato", "signalfx"}

// DialectNames are the names of the dialects, in their order.
func DialectNames() []string { return slices.Clone(dialectNames[:]) }

func (d Dialect) String() string {
	if int(d) < len(dialectNames) {
		return dialectNames[d]
	}
	return "invalid"
}

// ParseDialect parses the output of String; the empty string is the default.
func ParseDialect(s string) (Dialect, error) {
	if s == "" {
		return StatsD, nil
	}
	for i, name := range dialectNames {
		if name == s {
			return Dialect(i), nil
		}
	}
	return StatsD, fmt.Errorf("dialect %q: want one of %q", s, dialectNames)
}

// MarshalText implements encoding.TextMarshaler: a configuration file holds a dialect by name.
func (d Dialect) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Dialect) UnmarshalText(text []byte) error {
	parsed, err := ParseDialect(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// Options are the dialect and the limits of lines. Names are limited by metric.MaxNameLength.
type Options struct {
	Dialect Dialect
	// MaxLine limits a line, in bytes without its end.
	MaxLine int
	// MaxTags limits the tags of a line; empty tags count.
	MaxTags int
}

// DefaultOptions accepts lines up to 8 KiB, the most that DogStatsD clients fill, with up to 64
// tags.
func DefaultOptions() Options { return Options{MaxLine: 8192, MaxTags: 64} }

// Validate returns all faults at once.
func (o Options) Validate() error {
	var faults config.Faults
	if int(o.Dialect) >= len(dialectNames) {
		faults.Add("Dialect", "is %d; must be one of %q", o.Dialect, dialectNames)
	}
	if o.MaxLine < metric.MaxNameLength {
		faults.Add("MaxLine", "is %d; must be at least %d, the longest name", o.MaxLine, metric.MaxNameLength)
	}
	if o.MaxTags < 1 {
		faults.Add("MaxTags", "is %d; must be at least 1", o.MaxTags)
	}
	return faults.Join()
}
