package operations

import "github.com/sluice-metrics/sluice/internal/config"

// Config is the configuration of the operations port.
type Config struct {
	// Address is the TCP address to listen on, "host:port". An empty host is every address of the
	// machine.
	Address string
}

// DefaultConfig listens on port 8080 of loopback.
func DefaultConfig() Config { return Config{Address: "127.0.0.1:8080"} }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	faults.AddUnlessHostPort("Address", c.Address, DefaultConfig().Address)
	return faults.Join()
}
