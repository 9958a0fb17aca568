package wake

import (
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config says whether targets are woken.
type Config struct {
	Enabled bool
	// Cooldown is the shortest time between two wakes of one target. In between its autoscaler's
	// controller alone scales it.
	Cooldown time.Duration
}

// DefaultConfig is off. The cooldown is two syncs of the autoscaler's controller.
func DefaultConfig() Config { return Config{Cooldown: 30 * time.Second} }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.Cooldown < time.Second {
		faults.Add("Cooldown", "is %v; must be 1s or more: a metric that goes up and down would start pods all the time",
			c.Cooldown)
	}
	return faults.Join()
}

// NudgeConfig says whether and how often autoscalers are nudged.
type NudgeConfig struct {
	Enabled bool
	// Interval is the shortest time between two nudges of one autoscaler.
	Interval time.Duration
}

// DefaultNudgeConfig is off.
func DefaultNudgeConfig() NudgeConfig { return NudgeConfig{Interval: time.Second} }

// Validate returns all faults at once.
func (c NudgeConfig) Validate() error {
	var faults config.Faults
	if c.Interval < 100*time.Millisecond {
		faults.Add("Interval", "is %v; must be 100ms or more: a metric that goes up and down would change the spec all the time", c.Interval)
	}
	return faults.Join()
}
