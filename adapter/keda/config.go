package keda

import (
	"github.com/sluice-metrics/sluice/internal/config"
)

// Config names the port of the external scaler.
type Config struct {
	Address string // host:port; empty: off
	// CertFile, KeyFile and CAFile are PEM files. CAFile holds the authorities of clients.
	CertFile, KeyFile, CAFile string
	// ClientNames are the host names of which a client's certificate must have one.
	ClientNames []string
	// Insecure serves without TLS: anyone who can connect can read the metrics of all namespaces.
	Insecure bool
}

// DefaultConfig is off.
func DefaultConfig() Config { return Config{} }

// Enabled reports whether the port is served.
func (c Config) Enabled() bool { return c.Address != "" }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if !c.Enabled() {
		return faults.Join()
	}
	faults.AddUnlessHostPort("Address", c.Address, ":9095")
	files := 0
	for _, f := range []string{c.CertFile, c.KeyFile, c.CAFile} {
		if f != "" {
			files++
		}
	}
	switch {
	case files == 0 && !c.Insecure:
		faults.Add("CertFile", "is empty; must be set with %s and %s, or %s must be true: without certificates anyone who can connect can read the metrics of all namespaces",
			config.Field("KeyFile"), config.Field("CAFile"), config.Field("Insecure"))
	case files > 0 && files < 3:
		faults.Add("CertFile", "must be set together with %s and %s", config.Field("KeyFile"), config.Field("CAFile"))
	case files > 0 && c.Insecure:
		faults.Add("Insecure", "is true beside certificates; must be one or the other")
	case files > 0 && len(c.ClientNames) == 0:
		faults.Add("ClientNames", "is empty; must name the hosts of KEDA's certificate, such as keda-operator.keda.svc")
	}
	return faults.Join()
}
