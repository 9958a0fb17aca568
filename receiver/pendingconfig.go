package receiver

import (
	"errors"
	"fmt"
	"time"
)

// PendingConfig bounds what is held until it is known whose it is. What does not fit is refused at once.
type PendingConfig struct {
	// MaxSenders bounds the senders of whom something is held.
	MaxSenders int `json:"maxSenders"`
	// MaxBytesPerSender and MaxBytes bound the memory of one sender and of all. A pod that sends a thousand timers a
	// second for five seconds before its address is known takes 250 KiB; counters, gauges and sets take less, for
	// those of one second become one.
	MaxBytesPerSender int64 `json:"maxBytesPerSender"`
	MaxBytes          int64 `json:"maxBytes"`
	// MaxAge is how long a sample is held while its sender could become known.
	MaxAge time.Duration `json:"maxAge"`
	// MaxBlindAge is how long a sample is held at most: the API server may be away, and nobody becomes known.
	MaxBlindAge time.Duration `json:"maxBlindAge"`
	// RetryInterval is the time between two attempts, where nobody says that the sender is known now.
	RetryInterval time.Duration `json:"retryInterval"`
}

// DefaultPendingConfig holds samples for half a minute: an address reaches the API some seconds after its pod's first
// datagrams.
func DefaultPendingConfig() PendingConfig {
	return PendingConfig{
		MaxSenders:        10_000,
		MaxBytesPerSender: 512 << 10,
		MaxBytes:          64 << 20,
		MaxAge:            30 * time.Second,
		MaxBlindAge:       10 * time.Minute,
		RetryInterval:     250 * time.Millisecond,
	}
}

// Validate names every fault at once.
func (c PendingConfig) Validate() error {
	var faults []error
	if c.MaxSenders < 1 {
		faults = append(faults, fmt.Errorf("pending.maxSenders %d: want at least 1", c.MaxSenders))
	}
	if c.MaxBytesPerSender < 4<<10 {
		faults = append(faults, fmt.Errorf("pending.maxBytesPerSender %d: want at least %d", c.MaxBytesPerSender, 4<<10))
	}
	if c.MaxBytes < c.MaxBytesPerSender {
		faults = append(faults, fmt.Errorf("pending.maxBytes %d: want at least maxBytesPerSender", c.MaxBytes))
	}
	if c.MaxAge < time.Second {
		faults = append(faults, fmt.Errorf("pending.maxAge %v: want at least 1s", c.MaxAge))
	}
	if c.MaxBlindAge < c.MaxAge {
		faults = append(faults, fmt.Errorf("pending.maxBlindAge %v: want at least maxAge", c.MaxBlindAge))
	}
	if c.RetryInterval < time.Millisecond || c.RetryInterval > c.MaxAge {
		faults = append(faults, fmt.Errorf("pending.retryInterval %v: want 1ms to maxAge", c.RetryInterval))
	}
	return errors.Join(faults...)
}
