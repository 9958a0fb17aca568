package aggregate

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says what the table keeps, and for how long.
type Config struct {
	// Windows that readers may ask for. A metric that is asked for without one means a minute, or else the longest.
	Windows []time.Duration `json:"windows"`
	// ExternalTTL is how long an external series lives after its last sample.
	ExternalTTL time.Duration `json:"externalTTL"`
	// ObjectTTL is how long a series of an object lives after its last sample where no cluster says whether the object exists.
	ObjectTTL time.Duration `json:"objectTTL"`
	// MaxSeries caps the series of the whole process.
	MaxSeries int `json:"maxSeries"`
	// MaxBytes caps the memory of what has no fixed size: names and labels, aliases, timers, sets. Beyond it nothing new
	// comes in and nothing grows.
	MaxBytes int64 `json:"maxBytes"`
}

// DefaultConfig is what runs when nothing is said.
func DefaultConfig() Config {
	return Config{
		Windows:     []time.Duration{10 * time.Second, time.Minute},
		ExternalTTL: 24 * time.Hour,
		ObjectTTL:   time.Hour,
		MaxSeries:   2_000_000,
		MaxBytes:    2 << 30,
	}
}

const (
	maxWindows = 4
	minWindow  = time.Second
	maxWindow  = time.Hour
	// ShortTTL is the lifetime under which an autoscaler risks to lose a metric that merely pauses.
	ShortTTL = 10 * time.Minute
)

// Validate names every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Windows) == 0 || len(c.Windows) > maxWindows {
		fault("windows: %d given, want 1 to %d", len(c.Windows), maxWindows)
	}
	for i, w := range c.Windows {
		switch {
		case w < minWindow || w > maxWindow || w%time.Second != 0:
			fault("windows: %s, want whole seconds from %s to %s", w, minWindow, maxWindow)
		case slices.Contains(c.Windows[:i], w):
			fault("windows: %s is given twice", w)
		}
	}
	if len(faults) == 0 {
		short := slices.Min(c.Windows)
		for _, w := range c.Windows {
			if w%short != 0 {
				fault("windows: %s is not a multiple of the shortest, %s", w, short)
			}
		}
	}
	if c.ExternalTTL < time.Second {
		fault("externalTTL: %s, want at least 1s (10m or more is advised)", c.ExternalTTL)
	}
	if c.ObjectTTL < time.Second {
		fault("objectTTL: %s, want at least 1s (10m or more is advised)", c.ObjectTTL)
	}
	if c.MaxSeries < 1 || c.MaxSeries > maxBlocks*blockSeries {
		fault("maxSeries: %d, want 1 to %d", c.MaxSeries, maxBlocks*blockSeries)
	}
	if c.MaxBytes < 1<<20 {
		fault("maxBytes: %d, want at least %d (1 MiB)", c.MaxBytes, 1<<20)
	}
	return errors.Join(faults...)
}
