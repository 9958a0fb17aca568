package agent

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config says which server an agent tells, and bounds what it holds.
type Config struct {
	// Server is the host:port of the servers' agents-address. A host may have several addresses, and several are separated by commas.
	Server string
	// Node is the name of the agent's node.
	Node string
	// TokenFile holds the token of a service account, bound to the agent's pod; empty: none is shown.
	TokenFile string
	// CAFile has the authorities of the server's certificate, in PEM; empty: those of the system.
	CAFile string
	// Insecure connects without TLS.
	Insecure bool
	// MaxBytes bounds the memory of what no server has on disk.
	MaxBytes int
	// MaxSeries bounds the series that the agent knows.
	MaxSeries int
	// DeliveryTimeout is how long an agent that ends waits until all is on a server's disk.
	DeliveryTimeout time.Duration
}

// DefaultConfig names no server.
func DefaultConfig() Config {
	return Config{MaxBytes: 64 << 20, MaxSeries: 100_000, DeliveryTimeout: 10 * time.Second}
}

// leastBytes is the smallest MaxBytes: some frames.
const leastBytes = 4 << 20

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.Server == "" {
		faults.Add("Server", "is empty; must be the host:port of a server's agents-address, such as sluice-agents:9097")
	}
	for one := range strings.SplitSeq(c.Server, ",") {
		if c.Server != "" {
			faults.AddUnlessHostPort("Server", strings.TrimSpace(one), "sluice-agents:9097")
		}
	}
	if c.Node == "" {
		faults.Add("Node", "is empty; must be the name of this node")
	}
	if c.Insecure && c.CAFile != "" {
		faults.Add("Insecure", "is true, and so %s is of no use; must be one of them", config.Field("CAFile"))
	}
	if c.Insecure && c.TokenFile != "" {
		faults.Add("Insecure", "is true, and so anyone on the way could read the token of %s; must be one of them", config.Field("TokenFile"))
	}
	if c.MaxBytes < leastBytes {
		faults.Add("MaxBytes", "is %d; must be at least %d", c.MaxBytes, leastBytes)
	}
	if c.MaxSeries < 1 {
		faults.Add("MaxSeries", "is %d; must be at least 1", c.MaxSeries)
	}
	if c.DeliveryTimeout < 0 {
		faults.Add("DeliveryTimeout", "is %v; must not be negative", c.DeliveryTimeout)
	}
	return faults.Join()
}

// Loopback reports whether a server is reached over a loopback address, so pods may have such addresses too.
func (c Config) Loopback() bool {
	return slices.ContainsFunc(strings.Split(c.Server, ","), func(server string) bool {
		host, _, _ := net.SplitHostPort(strings.TrimSpace(server))
		return host == "localhost" || net.ParseIP(host).IsLoopback()
	})
}
