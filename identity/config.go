package identity

import (
	"errors"
	"fmt"
)

// Config decides how claims are read and which senders are trusted.
type Config struct {
	// DefaultNamespace is the namespace of objects whose claim names none, standalone. In a cluster
	// it is the sender's.
	DefaultNamespace string `json:"defaultNamespace"`
	// Trust decides which claims are accepted in a cluster. Standalone all are.
	Trust Trust `json:"trust"`
	// TrustedForwarders may describe any object: ingress controllers, node agents, Vector. Each
	// entry is a CIDR, an address, "namespace/serviceaccount" of a pod, or "unix" for anyone who
	// can open the Unix socket.
	TrustedForwarders []string `json:"trustedForwarders"`
	// ExternalWriters may write externals that belong to no namespace. The entries have the form of
	// TrustedForwarders.
	ExternalWriters []string `json:"externalWriters"`
}

// DefaultConfig trusts no forwarder.
func DefaultConfig() Config { return Config{DefaultNamespace: "default", Trust: Namespace} }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	if !validName(c.DefaultNamespace) {
		faults = append(faults, fmt.Errorf("defaultNamespace: %q is not a valid namespace name", c.DefaultNamespace))
	}
	if !c.Trust.valid() {
		faults = append(faults, fmt.Errorf("trust: %d is invalid; must be one of %s", c.Trust, trustNames()))
	}
	for _, list := range []struct {
		field   string
		entries []string
	}{{"trustedForwarders", c.TrustedForwarders}, {"externalWriters", c.ExternalWriters}} {
		_, bad := parseSenderList(list.entries)
		for _, fault := range bad {
			faults = append(faults, fmt.Errorf("%s: %w", list.field, fault))
		}
	}
	return errors.Join(faults...)
}
