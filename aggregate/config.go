package aggregate

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/internal/config"
)

// Config bounds the table's size, and the time for which it keeps series and history.
type Config struct {
	// Windows are the windows that readers may ask for. The default window of a query is one minute
	// if it is among them, else the longest.
	Windows []time.Duration
	// ExternalTTL is the lifetime of an external series after its last sample.
	ExternalTTL time.Duration
	// ObjectTTL is the lifetime of an object's series after its last sample. It applies where no
	// cluster reports whether the object exists.
	ObjectTTL time.Duration
	// MaxSeries bounds the series of the whole process: this table's and, see CountAlso, those of
	// the shadows of other origins.
	MaxSeries int
	// MaxBytes bounds the memory of all state without a fixed size: names, labels, aliases, history
	// logs, timers and sets. Above it, new series are rejected and existing ones cannot grow.
	MaxBytes int64
	// NamespaceShares makes the timers, sets and long labels of a namespace take at most three times of what is left of MaxBytes.
	NamespaceShares bool
	// Histograms makes timers keep the totals of their buckets since their births, for exports.
	Histograms bool
	// Replicated makes the table keep the order of gauges' values among replicas
	// (kind/gauge_order.go) and save it.
	Replicated bool
}

// DefaultConfig keeps windows of ten seconds and one minute.
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
	// ShortTTL is the lifetime below which a pause of the client may make a metric expire while an
	// autoscaler still needs it.
	ShortTTL = 10 * time.Minute
)

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	c.validateWindows(&faults)
	for _, ttl := range []struct {
		field config.Field
		value time.Duration
	}{{"ExternalTTL", c.ExternalTTL}, {"ObjectTTL", c.ObjectTTL}} {
		if ttl.value < time.Second {
			faults.Add(ttl.field, "is %v; must be at least 1s, better 10m or more", ttl.value)
		}
	}
	if c.MaxSeries < 1 || c.MaxSeries > maxBlocks*kind.BlockSeries {
		faults.Add("MaxSeries", "is %d; must be from 1 to %d", c.MaxSeries, maxBlocks*kind.BlockSeries)
	}
	if c.MaxBytes < 1<<20 {
		faults.Add("MaxBytes", "is %d; must be at least 1MiB", c.MaxBytes)
	}
	return faults.Join()
}

func (c Config) validateWindows(faults *config.Faults) {
	before := len(*faults)
	if len(c.Windows) == 0 || len(c.Windows) > maxWindows {
		faults.Add("Windows", "has %d windows; must have 1 to %d", len(c.Windows), maxWindows)
	}
	for i, w := range c.Windows {
		switch {
		case w < minWindow || w > maxWindow || w%time.Second != 0:
			faults.Add("Windows", "has %v; each must be whole seconds, from %v to %v", w, minWindow, maxWindow)
		case slices.Contains(c.Windows[:i], w):
			faults.Add("Windows", "has %v twice", w)
		}
	}
	if len(*faults) > before {
		return
	}
	short := slices.Min(c.Windows)
	for _, w := range c.Windows {
		if w%short != 0 {
			faults.Add("Windows", "has %v; each must be a multiple of the shortest, %v", w, short)
		}
	}
}
