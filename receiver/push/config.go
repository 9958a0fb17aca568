package push

import (
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// The values of Config.Auth and Config.TLSClientAuth.
const (
	AuthNone  = httpserver.AuthNone
	AuthToken = httpserver.AuthToken

	ClientAuthRequest = listener.ClientAuthRequest
	ClientAuthRequire = listener.ClientAuthRequire
)

// Config holds the limits of all requests, and the settings of single protocols.
type Config struct {
	httpserver.Config

	// OTLPGRPCAddress is the address of OTLP/gRPC, with the TLS, credentials and limits of HTTP push; empty: off.
	OTLPGRPCAddress string

	// Dialect is the dialect of lines pushed to /v1/statsd where a request names none.
	Dialect statsd.Dialect

	// PendingTimeout bounds how long a push to a group waits until its sender is known.
	PendingTimeout time.Duration

	// GroupTTL is the lifetime of a group after a push that names none. 0: forever.
	GroupTTL time.Duration
	// AdminWipe serves PUT /api/v1/admin/wipe.
	AdminWipe bool

	// OTLPResourceAttributes are the attributes of a resource that become labels of its series,
	// beside the attributes that identify the object.
	OTLPResourceAttributes []string
}

// DefaultConfig listens on loopback, on the port that Pushgateway clients know.
func DefaultConfig() Config {
	return Config{
		Config:                 httpserver.DefaultConfig(),
		PendingTimeout:         10 * time.Second,
		OTLPResourceAttributes: []string{"service.name"},
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	faults.AddNested("", c.Config.Validate())
	if c.OTLPGRPCAddress != "" {
		faults.AddUnlessHostPort("OTLPGRPCAddress", c.OTLPGRPCAddress, ":4317")
	}
	if c.PendingTimeout <= 0 {
		faults.Add("PendingTimeout", "is %v; must be above 0", c.PendingTimeout)
	}
	if c.GroupTTL != 0 && c.GroupTTL < time.Second {
		faults.Add("GroupTTL", "is %v; must be at least 1s, or 0 (forever)", c.GroupTTL)
	}
	return faults.Join()
}
