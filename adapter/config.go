package adapter

import (
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config says where the APIs are served, which of them, and how much they may use.
type Config struct {
	// Address is host:port to listen on. Standalone, anyone who can connect can read; in a cluster,
	// the API server authenticates and authorizes every request.
	Address string
	// CertFile and KeyFile are the serving certificate and its key, in PEM, reloaded when they
	// change. Both empty: a self-signed certificate is made.
	CertFile string
	KeyFile  string
	// CertDir keeps the self-signed certificate across restarts, and the ca.crt that clients verify
	// it with. Empty: the certificate lives in memory only.
	CertDir string

	// CustomMetrics and ExternalMetrics enable the API groups. A disabled group is neither served
	// nor listed.
	CustomMetrics   bool
	ExternalMetrics bool
	// OwnGroups serves both under custom.metrics.sluice.dev and external.metrics.sluice.dev as well, which no
	// other product owns.
	OwnGroups bool
	// ResourceMetrics serves metrics.k8s.io, in a cluster.
	ResourceMetrics bool
	// DiscoveryLimit bounds the metric names that each API group lists: every client of the cluster
	// reads the list.
	DiscoveryLimit int

	// MaxConnections bounds the open connections, of which an address has an eighth.
	MaxConnections int
	// MaxInFlight bounds the requests to the API groups that are served at once.
	MaxInFlight int
	// RequestTimeout bounds one request, and thereby how long stopping takes.
	RequestTimeout time.Duration
	// ShutdownDelay is how long requests are still answered once Run's context has ended, while
	// /readyz already fails: load balancers need the time to notice.
	ShutdownDelay time.Duration

	// AnyProxyName allows a cluster to have an empty requestheader-allowed-names. Any certificate
	// that the front proxy's authority ever signed can then act as any user. Disabled, Sluice
	// answers no query in such a cluster.
	AnyProxyName bool
}

// DefaultConfig serves both groups on loopback.
func DefaultConfig() Config {
	return Config{
		Address:         "127.0.0.1:6443",
		CustomMetrics:   true,
		ExternalMetrics: true,
		DiscoveryLimit:  1000,
		MaxConnections:  2048, // far above the needs of API servers, people and scrapers
		MaxInFlight:     64,
		RequestTimeout:  15 * time.Second,
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	faults.AddUnlessHostPort("Address", c.Address, DefaultConfig().Address)
	switch {
	case c.CertFile != "" && c.KeyFile == "":
		faults.Add("CertFile", "is set without %s; must be both or neither", config.Field("KeyFile"))
	case c.CertFile == "" && c.KeyFile != "":
		faults.Add("KeyFile", "is set without %s; must be both or neither", config.Field("CertFile"))
	}
	if !c.CustomMetrics && !c.ExternalMetrics {
		faults.Add("CustomMetrics", "is false, and so is %s; one of them must be true",
			config.Field("ExternalMetrics"))
	}
	if c.DiscoveryLimit < 1 {
		faults.Add("DiscoveryLimit", "is %d; must be at least 1, because an empty list breaks clients",
			c.DiscoveryLimit)
	}
	if c.MaxConnections < eachOfConnections {
		faults.Add("MaxConnections", "is %d; must be at least %d", c.MaxConnections, eachOfConnections)
	}
	if c.MaxInFlight < 1 {
		faults.Add("MaxInFlight", "is %d; must be at least 1", c.MaxInFlight)
	}
	if c.RequestTimeout < time.Second {
		faults.Add("RequestTimeout", "is %v; must be at least 1s", c.RequestTimeout)
	}
	if c.ShutdownDelay < 0 {
		faults.Add("ShutdownDelay", "is %v; must be 0 or more", c.ShutdownDelay)
	}
	return faults.Join()
}
