package identity

import (
	"errors"
	"fmt"
)

// Config is how claims are read, and who is believed.
type Config struct {
	// DefaultNamespace is where an object is whose claim names no namespace, without a cluster. In a cluster it is in
	// its sender's.
	DefaultNamespace string `json:"defaultNamespace"`
	// Trust is whose claims are believed in a cluster. Without one all are.
	Trust Trust `json:"trust"`
	// TrustedForwarders may speak for others: ingress controllers, node agents, Vector. Each is a CIDR, an address,
	// "namespace/serviceaccount" of a pod, or "unix" for whoever can open a Unix socket of ours.
	TrustedForwarders []string `json:"trustedForwarders"`
	// ExternalWriters, written likewise, may write externals that belong to no namespace.
	ExternalWriters []string `json:"externalWriters"`
}

// DefaultConfig trusts nobody to speak for others.
func DefaultConfig() Config { return Config{DefaultNamespace: "default", Trust: Namespace} }

// Validate names every fault at once.
func (c Config) Validate() error {
	var faults []error
	if !validName(c.DefaultNamespace) {
		faults = append(faults, fmt.Errorf("defaultNamespace: %q is no namespace's name", c.DefaultNamespace))
	}
	if !c.Trust.valid() {
		faults = append(faults, fmt.Errorf("trust: %d is none of %s", c.Trust, trustNames()))
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
