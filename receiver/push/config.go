package push

import (
	"errors"
	"fmt"
	"time"

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

// Config is what the receiver may spend: the limits of all requests, and the settings of single protocols.
type Config struct {
	httpserver.Config

	// Dialect is how /v1/statsd reads lines where a request names no dialect.
	Dialect statsd.Dialect

	// PendingTimeout is how long a push to a group waits for its sender to become known.
	PendingTimeout time.Duration

	// GroupTTL is how long a group lives after a push that does not say it. 0: for ever.
	GroupTTL time.Duration
	// AdminWipe serves PUT /api/v1/admin/wipe.
	AdminWipe bool

	// OTLPResourceAttributes are the attributes of a resource that become labels of its series, beside those that say which
	// object they are about.
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

// Validate returns all faults at once, each with the name of its field as a configuration file has it.
func (c Config) Validate() error {
	faults := []error{c.Config.Validate()}
	if c.PendingTimeout <= 0 {
		faults = append(faults, fmt.Errorf("pendingTimeout is %v, but must be more than 0", c.PendingTimeout))
	}
	if c.GroupTTL != 0 && c.GroupTTL < time.Second {
		faults = append(faults, fmt.Errorf("groupTTL is %v, but must be 0, which is for ever, or at least 1s", c.GroupTTL))
	}
	return errors.Join(faults...)
}
