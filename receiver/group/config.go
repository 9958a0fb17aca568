package group

import "github.com/sluice-metrics/sluice/internal/config"

// Config limits the groups.
type Config struct {
	// MaxGroups bounds the number of groups.
	MaxGroups int
	// MaxBytes bounds the memory of all groups together.
	MaxBytes int64
	// NamespaceShare is the share of both bounds that the groups of one namespace may use, from 0
	// to 1; 0 is no bound per namespace.
	NamespaceShare float64
}

// DefaultConfig has room for some ten times what a large cluster's batch jobs push.
func DefaultConfig() Config {
	return Config{MaxGroups: 1_000_000, MaxBytes: 1 << 30, NamespaceShare: 0.1}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.MaxGroups < 1 {
		faults.Add("MaxGroups", "is %d; must be at least 1", c.MaxGroups)
	}
	if c.MaxBytes < 1<<20 {
		faults.Add("MaxBytes", "is %d; must be at least 1MiB", c.MaxBytes)
	}
	if !(c.NamespaceShare >= 0 && c.NamespaceShare <= 1) { // NaN is neither
		faults.Add("NamespaceShare", "is %v; must be from 0 to 1", c.NamespaceShare)
	}
	return faults.Join()
}
