package cluster

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Config says which cluster is viewed and how much of it.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file, of which the current context is taken. Empty: the cluster whose pod
	// this process runs in.
	Kubeconfig string `json:"kubeconfig"`
	// ObjectKinds are the resources, besides pods, whose objects are watched (their metadata only): "deployments.apps".
	// Series on them end with the object, and a label selector can pick them.
	ObjectKinds []string `json:"objectKinds"`
	// Version is what the user agent tells the API server: "sluice/<version>".
	Version string `json:"-"`
}

// DefaultConfig views the cluster around this process, and the objects that metrics are usually about.
func DefaultConfig() Config {
	return Config{
		ObjectKinds: []string{"namespaces", "services", "deployments.apps", "statefulsets.apps", "ingresses.networking.k8s.io"},
	}
}

// Validate returns all faults at once, each naming its field.
func (c Config) Validate() error {
	var faults []error
	seen := map[string]bool{}
	for _, kind := range c.ObjectKinds {
		switch fault := kindFault(kind); {
		case fault != "":
			faults = append(faults, fmt.Errorf("ObjectKinds: %q %s; want plural.group, for example deployments.apps", kind, fault))
		case kind == podResource:
			faults = append(faults, errors.New("ObjectKinds: pods are watched always, do not list them"))
		case seen[kind]:
			faults = append(faults, fmt.Errorf("ObjectKinds: %q stands there twice", kind))
		}
		seen[kind] = true
	}
	return errors.Join(faults...)
}

// kindFault says what is wrong with a resource's spelling; empty: nothing.
func kindFault(kind string) string {
	one := schema.ParseGroupResource(kind)
	if len(validation.IsDNS1035Label(one.Resource)) > 0 || kind != strings.ToLower(kind) {
		return "is no resource"
	}
	if one.Group != "" && len(validation.IsDNS1123Subdomain(one.Group)) > 0 {
		return "has no valid group"
	}
	return ""
}
