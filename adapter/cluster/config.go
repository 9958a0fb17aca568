package cluster

import (
	"strings"

	"github.com/sluice-metrics/sluice/internal/config"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Config says which cluster to view, and which of its objects.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file, whose current context names the cluster. Empty:
	// the cluster that this process runs in as a pod.
	Kubeconfig string
	// ObjectKinds are the resources, besides pods, whose objects are watched (their metadata only),
	// as in "deployments.apps". A series on such an object ends with it, and label selectors can
	// pick it.
	ObjectKinds []string
	// Replica is the name of this process among several replicas; empty: it is the only one.
	Replica string
	// Replicas is the name that all replicas of one Sluice have in common, and that of their Lease.
	Replicas string
	// Announcements makes the view keep the endpoints that pods announce.
	Announcements bool
	// Version is Sluice's own, for the user agent "sluice/<version>".
	Version string
}

// DefaultConfig views the cluster that this process runs in, and the usual kinds of objects.
func DefaultConfig() Config {
	return Config{
		ObjectKinds: []string{"namespaces", "services", "deployments.apps", "statefulsets.apps",
			"ingresses.networking.k8s.io"},
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	seen := map[string]bool{}
	for _, kind := range c.ObjectKinds {
		switch {
		case !validKind(kind):
			faults.Add("ObjectKinds", "has %q; must be plural.group, as in deployments.apps", kind)
		case kind == podResource:
			faults.Add("ObjectKinds", "has %q, which are always watched; must not list them", kind)
		case seen[kind]:
			faults.Add("ObjectKinds", "has %q twice", kind)
		}
		seen[kind] = true
	}
	return faults.Join()
}

// validKind reports whether kind can be a resource: "services", "deployments.apps".
func validKind(kind string) bool {
	groupResource := schema.ParseGroupResource(kind)
	if len(validation.IsDNS1035Label(groupResource.Resource)) > 0 || kind != strings.ToLower(kind) {
		return false
	}
	return groupResource.Group == "" || len(validation.IsDNS1123Subdomain(groupResource.Group)) == 0
}
