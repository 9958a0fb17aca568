package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
)

// Config says where and how often to persist.
type Config struct {
	// Dir is the data folder. It belongs to the store alone. It may be missing, empty (except for "lost+found"), or one
	// that a store made, and it may be a mount point.
	Dir string
	// FlushInterval is the time between two flushes. A killed process loses the changes of an interval, and those that
	// came while a flush was spread (pacer.go).
	FlushInterval time.Duration
	// SyncInterval is the time between two fsyncs: a power cut loses the changes of an interval.
	SyncInterval time.Duration
	// MinFreeBytes is the space on the disk that must stay free, besides as much again as the database holds, which its
	// compactions need. Below it nothing is persisted until a quarter more is free.
	MinFreeBytes uint64
	// ProbeTimeout bounds the opening of the database in a throw-away process, before the store opens it.
	ProbeTimeout time.Duration
	// StopTimeout bounds the last flush and fsync, after Run's context has ended.
	StopTimeout time.Duration
}

// DefaultConfig persists every 500 ms and syncs every 10 s. Dir has no default.
func DefaultConfig() Config {
	return Config{
		FlushInterval: 500 * time.Millisecond,
		SyncInterval:  10 * time.Second,
		MinFreeBytes:  256 << 20,
		ProbeTimeout:  time.Minute,
		StopTimeout:   10 * time.Second,
	}
}

const (
	minFlushInterval = 10 * time.Millisecond
	maxFlushInterval = 500 * time.Millisecond // a longer one breaks the promise that a kill costs 1 s at most
)

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Dir == "" {
		fault("store: dir is empty; must name the data folder")
	}
	if c.FlushInterval < minFlushInterval || c.FlushInterval > maxFlushInterval {
		fault("store: flushInterval is %v; must be from %v to %v", c.FlushInterval, minFlushInterval, maxFlushInterval)
	}
	if c.SyncInterval < c.FlushInterval {
		fault("store: syncInterval is %v; must be at least flushInterval, %v", c.SyncInterval, c.FlushInterval)
	}
	if c.MinFreeBytes < database.LeastFreeBytes {
		fault("store: minFreeBytes is %d; must be at least %d, which the database may write at once", c.MinFreeBytes, database.LeastFreeBytes)
	}
	if c.ProbeTimeout <= 0 {
		fault("store: probeTimeout is %v; must be positive", c.ProbeTimeout)
	}
	if c.StopTimeout <= 0 {
		fault("store: stopTimeout is %v; must be positive", c.StopTimeout)
	}
	return errors.Join(faults...)
}
