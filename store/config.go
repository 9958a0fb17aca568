package store

import (
	"errors"
	"fmt"
	"time"
)

// Config says where and how often to persist.
type Config struct {
	// Dir is the data directory. The store wants it for itself: it may be missing, empty (but for
	// "lost+found"), or one that it made. It may be a mount point.
	Dir string
	// FlushInterval is the time between two flushes: a killed process forgets that, and what came while one was spread (pace.go).
	FlushInterval time.Duration
	// SyncInterval is the time between two fsyncs: how much a power failure forgets.
	SyncInterval time.Duration
	// MinFreeBytes is how much of the disk must stay free, beside as much again as the database holds, which
	// its compactions need. Below it nothing is persisted until a quarter more than that is free again.
	MinFreeBytes uint64
	// TrialTimeout bounds the opening of the database in a process of its own, which precedes ours.
	TrialTimeout time.Duration
	// StopTimeout bounds the last flush, after Run's context ended.
	StopTimeout time.Duration
}

// DefaultConfig persists every 500 ms and syncs every 10 s. Dir has no default.
func DefaultConfig() Config {
	return Config{
		FlushInterval: 500 * time.Millisecond,
		SyncInterval:  10 * time.Second,
		MinFreeBytes:  256 << 20,
		TrialTimeout:  time.Minute,
		StopTimeout:   10 * time.Second,
	}
}

// leastFreeBytes is what a flush and Badger's memtables may write between two looks at the free space. As much
// must always be free, for a full disk under a mapped file is a SIGBUS.
const leastFreeBytes = 8 * memTableBytes

const (
	minFlushInterval = 10 * time.Millisecond
	maxFlushInterval = 500 * time.Millisecond // longer would break the promise of a kill's 1 s
)

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Dir == "" {
		fault("store: dir is empty; it must name the data directory")
	}
	if c.FlushInterval < minFlushInterval || c.FlushInterval > maxFlushInterval {
		fault("store: flushInterval is %v; it must be from %v to %v", c.FlushInterval, minFlushInterval, maxFlushInterval)
	}
	if c.SyncInterval < c.FlushInterval {
		fault("store: syncInterval is %v; it must not be shorter than flushInterval, %v", c.SyncInterval, c.FlushInterval)
	}
	if c.MinFreeBytes < leastFreeBytes {
		fault("store: minFreeBytes is %d; it must be at least %d, which the database may need at once", c.MinFreeBytes, leastFreeBytes)
	}
	if c.TrialTimeout <= 0 {
		fault("store: trialTimeout is %v; it must be above 0", c.TrialTimeout)
	}
	if c.StopTimeout <= 0 {
		fault("store: stopTimeout is %v; it must be above 0", c.StopTimeout)
	}
	return errors.Join(faults...)
}
