package store

import (
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/store/database"
)

// Config says where and how often to persist.
type Config struct {
	// Dir is the data folder, for the store's exclusive use: missing, empty (apart from
	// "lost+found") or made by a store. It may be a mount point.
	Dir string
	// FlushInterval is the time between two flushes. A killed process loses at most the samples of
	// one interval and of the flush in progress (pause.go).
	FlushInterval time.Duration
	// SyncInterval is the time between two fsyncs. A power failure loses at most the samples of one
	// interval.
	SyncInterval time.Duration
	// MinFreeBytes is the disk space that must stay free, beside a reserve of the database's own
	// size for compactions. Below it the store pauses, until a quarter more than that is free
	// again.
	MinFreeBytes uint64
	// ProbeTimeout bounds the probe, which opens the database in a throw-away process.
	ProbeTimeout time.Duration
	// StopTimeout bounds the last flush, after Run's context has ended.
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
	maxFlushInterval = 500 * time.Millisecond // a killed process may lose 1 s at most
)

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.Dir == "" {
		faults.Add("Dir", "is empty; must be a folder")
	}
	if c.FlushInterval < minFlushInterval || c.FlushInterval > maxFlushInterval {
		faults.Add("FlushInterval", "is %v; must be from %v to %v", c.FlushInterval, minFlushInterval, maxFlushInterval)
	}
	if c.SyncInterval < c.FlushInterval {
		faults.Add("SyncInterval", "is %v; must be at least %s, which is %v",
			c.SyncInterval, config.Field("FlushInterval"), c.FlushInterval)
	}
	if c.MinFreeBytes < database.LeastFreeBytes {
		faults.Add("MinFreeBytes", "is %v; must be at least %v, which the database may need at once",
			config.Bytes(c.MinFreeBytes), config.Bytes(database.LeastFreeBytes))
	}
	if c.ProbeTimeout <= 0 {
		faults.Add("ProbeTimeout", "is %v; must be above 0", c.ProbeTimeout)
	}
	if c.StopTimeout <= 0 {
		faults.Add("StopTimeout", "is %v; must be above 0", c.StopTimeout)
	}
	return faults.Join()
}
