package relay

import (
	"net"
	"strings"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config says where lines go.
type Config struct {
	// Targets are addresses "udp://host:port" or "tcp://host:port"; without a scheme, UDP.
	Targets []string
	// QueueBytes bounds the lines that wait for each target. As many may be on their way to it.
	QueueBytes int
}

// DefaultConfig relays nothing.
func DefaultConfig() Config { return Config{QueueBytes: 4 << 20} }

// Enabled reports whether there is a target.
func (c Config) Enabled() bool { return len(c.Targets) > 0 }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	seen := map[string]bool{}
	for _, target := range c.Targets {
		network, address, ok := parseTarget(target)
		switch host, port, err := net.SplitHostPort(address); {
		case !ok || err != nil || host == "" || port == "":
			faults.Add("Targets", "has %q; must be udp://host:port or tcp://host:port", target)
		case seen[network+address]:
			faults.Add("Targets", "has %q twice", target)
		}
		seen[network+address] = true
	}
	if len(c.Targets) > maxTargets {
		faults.Add("Targets", "has %d addresses; must have at most %d", len(c.Targets), maxTargets)
	}
	if c.QueueBytes < minQueue || c.QueueBytes > maxQueue {
		faults.Add("QueueBytes", "is %d; must be from %d (64KiB) to %d (1GiB)", c.QueueBytes, minQueue, maxQueue)
	}
	return faults.Join()
}

const (
	maxTargets = 16
	minQueue   = 64 << 10
	maxQueue   = 1 << 30
)

func parseTarget(target string) (network, address string, ok bool) {
	network, address, found := strings.Cut(target, "://")
	if !found {
		return "udp", target, true
	}
	return network, address, network == "udp" || network == "tcp"
}
