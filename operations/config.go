package operations

import (
	"fmt"
	"net"
)

// Config of the operations port.
type Config struct {
	// Address is the TCP address listened on, "host:port". An empty host is every address of the machine.
	Address string
}

// DefaultConfig listens on port 8080 of loopback, as everything does that runs standalone.
func DefaultConfig() Config { return Config{Address: "127.0.0.1:8080"} }

// Validate names what is wrong.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("ops-address: %w: want host:port", err)
	}
	return nil
}
