package group

import (
	"errors"
	"fmt"
)

// Config bounds what groups may take.
type Config struct {
	// MaxGroups bounds the groups, MaxBytes what all of them hold together.
	MaxGroups int
	MaxBytes  int64
	// NamespaceShare is the part of both that the groups about one namespace may take; 0: all.
	NamespaceShare float64
}

// DefaultConfig has room for some ten times what a large cluster's batch jobs push.
func DefaultConfig() Config {
	return Config{MaxGroups: 1_000_000, MaxBytes: 1 << 30, NamespaceShare: 0.1}
}

// Validate tells all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.MaxGroups < 1 {
		faults = append(faults, fmt.Errorf("maxGroups is %d, but must be at least 1", c.MaxGroups))
	}
	if c.MaxBytes < 1<<20 {
		faults = append(faults, fmt.Errorf("maxBytes is %d, but must be at least %d", c.MaxBytes, 1<<20))
	}
	if !(c.NamespaceShare >= 0 && c.NamespaceShare <= 1) {
		faults = append(faults, fmt.Errorf("namespaceShare is %v, but must be from 0 to 1", c.NamespaceShare))
	}
	return errors.Join(faults...)
}
