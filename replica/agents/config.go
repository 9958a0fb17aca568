package agents

import (
	"github.com/sluice-metrics/sluice/internal/config"
)

// Config is the port for agents.
type Config struct {
	Address string // host:port; empty: off
	// CertFile and KeyFile are the certificate of the port, in PEM.
	CertFile, KeyFile string
	// Insecure serves without TLS.
	Insecure bool
	// Accounts are the service accounts of agents, namespace/name, in a cluster.
	Accounts []string
	// StartupTaint has the taint of nodes whose agent is connected removed, in a cluster.
	StartupTaint bool
	// MaxBytes bounds the memory of the series of all agents, and of their samples that are not applied yet.
	MaxBytes int64
}

// DefaultConfig is off.
func DefaultConfig() Config { return Config{MaxBytes: 1 << 30} }

// Enabled reports whether the port is served.
func (c Config) Enabled() bool { return c.Address != "" }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if !c.Enabled() {
		return faults.Join()
	}
	faults.AddUnlessHostPort("Address", c.Address, ":9097")
	if c.MaxBytes < 1<<20 {
		faults.Add("MaxBytes", "is %d; must be at least 1MiB", c.MaxBytes)
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		faults.Add("CertFile", "must be set together with %s", config.Field("KeyFile"))
	case c.CertFile == "" && !c.Insecure:
		faults.Add("CertFile", "is empty; must be set with %s, or %s must be true: without TLS anyone on the way can read the tokens of agents",
			config.Field("KeyFile"), config.Field("Insecure"))
	case c.CertFile != "" && c.Insecure:
		faults.Add("Insecure", "is true beside a certificate; must be one or the other")
	}
	return faults.Join()
}
