package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Config is how claims are read.
type Config struct {
	// DefaultNamespace is where an object is whose claim names no namespace.
	DefaultNamespace string `json:"defaultNamespace"`
}

// DefaultConfig is what kubectl assumes as well.
func DefaultConfig() Config { return Config{DefaultNamespace: "default"} }

// Validate names every fault at once.
func (c Config) Validate() error {
	var faults []error
	if !validName(c.DefaultNamespace) {
		faults = append(faults, fmt.Errorf("defaultNamespace: %q is no namespace's name", c.DefaultNamespace))
	}
	return errors.Join(faults...)
}

// Resources knows the resources that objects can be of.
type Resources interface {
	// Canonical turns any spelling of a resource ("pod", "ingresses") into the one that series are filed under
	// ("pods", "ingresses.networking.k8s.io") and says whether its objects are in namespaces. An unknown or
	// ambiguous resource is an error.
	Canonical(resource string) (canonical string, namespaced bool, err error)
}

// Resolver reads claims. It is safe for use by many goroutines.
type Resolver struct {
	config    Config
	resources Resources
}

// New makes a resolver.
func New(c Config, r Resources) *Resolver { return &Resolver{config: c, resources: r} }

// ObjectLabel is the explicit claim: "<resource[.group]>/<name>", "external" or "external/<namespace>".
const ObjectLabel = "sluice_object"

// podClaims are the pairs of labels by which clients and agents name a pod: our own and Prometheus', OpenTelemetry's
// semantic conventions, Datadog's unified tagging.
var podClaims = [...]struct{ pod, namespace string }{
	{"pod", "namespace"},
	{"k8s.pod.name", "k8s.namespace.name"},
	{"pod_name", "kube_namespace"},
}

// Describe says what a sample is about: the way it came, an explicit claim, a pod's claim, or nothing.
func (r *Resolver) Describe(s *metric.Sample, d *metric.Description) metric.Reason {
	labels := s.AppendLabels(d.Labels[:0])
	refused := metric.Applied
	if s.About != nil {
		d.Object = *s.About
	} else if claim, ok := value(labels, ObjectLabel); ok {
		labels, refused = r.explicit(claim, labels, &d.Object)
	} else {
		labels = pod(labels, &d.Object)
	}
	d.Labels = metric.SortLabels(labels)
	return refused
}

// explicit reads the value of ObjectLabel.
func (r *Resolver) explicit(claim string, labels []metric.Label, o *metric.Object) ([]metric.Label, metric.Reason) {
	labels = without(labels, ObjectLabel)
	resource, name, slashed := strings.Cut(claim, "/")
	if resource == "external" {
		if slashed && !validName(name) {
			return labels, metric.Identity
		}
		o.Namespace = name
		return labels, metric.Applied
	}
	canonical, namespaced, err := r.resources.Canonical(resource)
	if err != nil || !validName(name) {
		return labels, metric.Identity
	}
	o.Resource, o.Name = canonical, name
	if !namespaced {
		return labels, metric.Applied
	}
	o.Namespace = r.config.DefaultNamespace
	for _, c := range podClaims {
		if namespace, ok := value(labels, c.namespace); ok {
			o.Namespace = namespace
			labels = without(labels, c.namespace)
			break
		}
	}
	if !validName(o.Namespace) {
		return labels, metric.Identity
	}
	return labels, metric.Applied
}

// pod reads a pod's claim; without one the sample is external. A name that no pod can have is no claim.
func pod(labels []metric.Label, o *metric.Object) []metric.Label {
	for _, c := range podClaims {
		name, named := value(labels, c.pod)
		namespace, spaced := value(labels, c.namespace)
		if !named || !spaced || !validName(name) || !validName(namespace) {
			continue
		}
		o.Resource, o.Namespace, o.Name = "pods", namespace, name
		return without(without(labels, c.pod), c.namespace)
	}
	return labels
}

// value is that of the first label with the key: the same tag twice keeps the first.
func value(labels []metric.Label, key string) (string, bool) {
	for _, l := range labels {
		if l.Key == key {
			return l.Value, true
		}
	}
	return "", false
}

// without drops all labels with the key, in place.
func without(labels []metric.Label, key string) []metric.Label {
	kept := labels[:0]
	for _, l := range labels {
		if l.Key != key {
			kept = append(kept, l)
		}
	}
	return kept
}

// validName reports whether an object could have the name: a path segment of at most 253 bytes (Kubernetes' "Object
// Names and IDs"). What an API server would refuse besides does no harm here.
func validName(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '/' || c == '%' || c == '?' || c == '*' || c >= 0x7f {
			return false
		}
	}
	return true
}
