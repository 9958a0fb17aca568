package identity

import "github.com/sluice-metrics/sluice/internal/config"

// Config says how claims are read, and which senders are trusted.
type Config struct {
	// DefaultNamespace is, without a cluster, the namespace of an object whose claim names none. In
	// a cluster it is the sender's.
	DefaultNamespace string
	// Trust says which claims are believed in a cluster. Without a cluster all are.
	Trust Trust
	// TrustedForwarders may describe any object: ingress controllers, node agents, Vector. Each is
	// a CIDR, an address, "namespace/serviceaccount" of a pod, or "unix" for every process that can
	// open a Unix socket of Sluice.
	TrustedForwarders []string
	// ExternalWriters, in the notation of TrustedForwarders, may write external metrics that belong
	// to no namespace.
	ExternalWriters []string
}

// DefaultConfig trusts no forwarder.
func DefaultConfig() Config { return Config{DefaultNamespace: "default", Trust: Namespace} }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if !validName(c.DefaultNamespace) {
		faults.Add("DefaultNamespace", "is %q; must be a valid namespace name", c.DefaultNamespace)
	}
	if !c.Trust.valid() {
		faults.Add("Trust", "is %d; must be one of %s", c.Trust, trustNames())
	}
	for _, list := range []struct {
		field   config.Field
		entries []string
	}{{"TrustedForwarders", c.TrustedForwarders}, {"ExternalWriters", c.ExternalWriters}} {
		_, bad := parseSenderList(list.entries)
		for _, err := range bad {
			faults.Add(list.field, "has %w", err)
		}
	}
	return faults.Join()
}
