package adapter

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Config says where the API is served and how much of it.
type Config struct {
	// Address is host:port to listen on. Standalone everybody who reaches it may read, in a cluster whom its API
	// server allows.
	Address string `json:"address"`
	// CertFile and KeyFile are the serving certificate and its key, PEM, read again when they change. Both
	// empty: a self-signed certificate is made.
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// CertDir keeps the self-signed certificate from start to start, and beside it the ca.crt that clients
	// verify it with. Empty: it lives in memory only.
	CertDir string `json:"certDir"`

	// CustomMetrics and ExternalMetrics switch the API groups on. One that is off is neither served nor listed.
	CustomMetrics   bool `json:"customMetrics"`
	ExternalMetrics bool `json:"externalMetrics"`
	// DiscoveryLimit is how many names each API group lists at most: every client of the cluster reads them.
	DiscoveryLimit int `json:"discoveryLimit"`

	// MaxInFlight is how many requests to the API groups are worked on at once.
	MaxInFlight int `json:"maxInFlight"`
	// RequestTimeout bounds one request, and thereby how long stopping takes.
	RequestTimeout time.Duration `json:"requestTimeout"`
	// ShutdownDelay is how long requests are still answered after Run was told to end, while /readyz says no: until
	// whoever sends them has taken notice.
	ShutdownDelay time.Duration `json:"shutdownDelay"`

	// AnyProxyName allows a cluster to have an empty requestheader-allowed-names: any certificate that the front
	// proxy's authority ever signed then speaks for anybody. Off, no query is answered in such a cluster.
	AnyProxyName bool `json:"anyProxyName"`
}

// DefaultConfig serves both groups on loopback.
func DefaultConfig() Config {
	return Config{
		Address:         "127.0.0.1:6443",
		CustomMetrics:   true,
		ExternalMetrics: true,
		DiscoveryLimit:  1000,
		MaxInFlight:     64,
		RequestTimeout:  15 * time.Second,
	}
}

// Validate returns all faults at once, each naming its field.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if _, port, err := net.SplitHostPort(c.Address); err != nil {
		fault("Address: %w; want host:port, for example 127.0.0.1:6443", err)
	} else if _, err := net.LookupPort("tcp", port); err != nil {
		fault("Address: %q is not a port", port)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		fault("CertFile, KeyFile: give both or neither")
	}
	if !c.CustomMetrics && !c.ExternalMetrics {
		fault("CustomMetrics, ExternalMetrics: both are off, so there is nothing to serve")
	}
	if c.DiscoveryLimit < 1 {
		fault("DiscoveryLimit: %d; want at least 1, for an empty list breaks clients", c.DiscoveryLimit)
	}
	if c.MaxInFlight < 1 {
		fault("MaxInFlight: %d; want at least 1", c.MaxInFlight)
	}
	if c.RequestTimeout < time.Second {
		fault("RequestTimeout: %v; want at least 1s", c.RequestTimeout)
	}
	if c.ShutdownDelay < 0 {
		fault("ShutdownDelay: %v; want 0 or more", c.ShutdownDelay)
	}
	return errors.Join(faults...)
}
