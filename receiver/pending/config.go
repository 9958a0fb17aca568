package pending

import (
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config bounds the samples that are held until their sender is known. A sample over a bound
// is rejected at once.
type Config struct {
	// MaxSenders bounds the senders with pending samples.
	MaxSenders int
	// MaxBytesPerSender and MaxBytes bound the memory of one sender and of all. A pod that sends a
	// thousand timers a second for five seconds before its address is known takes 250 KiB.
	// Counters, gauges and sets take less: those of one second are merged.
	MaxBytesPerSender int64
	MaxBytes          int64
	// MaxAge bounds how long a sample is held while the cluster view is up to date.
	MaxAge time.Duration
	// MaxBlindAge bounds how long a sample is held while the API server is away, and no sender can
	// become known.
	MaxBlindAge time.Duration
	// RetryInterval is the time between two attempts, beside those that a newly known sender
	// triggers.
	RetryInterval time.Duration
}

// DefaultConfig holds samples for half a minute: a pod's address reaches the API some
// seconds after the pod's first datagrams.
func DefaultConfig() Config {
	return Config{
		MaxSenders:        10_000,
		MaxBytesPerSender: 512 << 10,
		MaxBytes:          64 << 20,
		MaxAge:            30 * time.Second,
		MaxBlindAge:       10 * time.Minute,
		RetryInterval:     250 * time.Millisecond,
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.MaxSenders < 1 {
		faults.Add("MaxSenders", "is %d; must be at least 1", c.MaxSenders)
	}
	if c.MaxBytesPerSender < 4<<10 {
		faults.Add("MaxBytesPerSender", "is %d; must be at least 4KiB", c.MaxBytesPerSender)
	}
	if c.MaxBytes < c.MaxBytesPerSender {
		faults.Add("MaxBytes", "is %d; must be at least %s", c.MaxBytes, config.Field("MaxBytesPerSender"))
	}
	if c.MaxAge < time.Second {
		faults.Add("MaxAge", "is %v; must be at least 1s", c.MaxAge)
	}
	if c.MaxBlindAge < c.MaxAge {
		faults.Add("MaxBlindAge", "is %v; must be at least %s", c.MaxBlindAge, config.Field("MaxAge"))
	}
	if c.RetryInterval < time.Millisecond || c.RetryInterval > c.MaxAge {
		faults.Add("RetryInterval", "is %v; must be from 1ms to %s", c.RetryInterval, config.Field("MaxAge"))
	}
	return faults.Join()
}
