package wake

import (
	"time"

	"github.com/sluice-metrics/sluice/config"
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
		faults.Add("Cooldown", "is %v; must be 1s or more: a metric that goes up and down would start pods all the time", c.Cooldown)
	}
	return faults.Join()
}
