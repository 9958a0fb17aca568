package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// ObjectLabel is the explicit claim: "<resource[.group]>/<name>", "external" or "external/<namespace>".
const ObjectLabel = "sluice_object"

const pods = "pods"

// claim is what a sample says about whom it describes. Its strings are borrowed from the sample.
type claim struct {
	object metric.Object
	// sendersNamespace: the object, or the external, is in the namespace of its sender, for the claim names none.
	inSendersNamespace bool
	// pod is whom a container means; uid is a pod's, claimed without a name.
	pod *metric.Pod
	uid string
	// none: there is no claim at all.
	none bool
	// unreadable: there is one, and it means nothing; err says why.
	unreadable bool
	err        error
}

func (c *claim) byUID() bool { return c.pod != nil || c.uid != "" }

// claimed reads the claim of a sample, and returns its labels without those that decided, appended to labels.
func (r *Resolver) claimed(s *metric.Sample, labels []metric.Label) ([]metric.Label, claim) {
	labels = s.AppendLabels(labels)
	if s.About != nil {
		return labels, claim{object: *s.About}
	}
	if text, ok := value(labels, ObjectLabel); ok {
		return r.explicit(text, without(labels, ObjectLabel))
	}
	if left, c := podLabels(labels); !c.none {
		return left, c
	}
	if r.cluster != nil {
		return r.podIDs(s, labels)
	}
	return labels, claim{none: true, inSendersNamespace: true}
}

// explicit reads the value of ObjectLabel.
func (r *Resolver) explicit(text string, labels []metric.Label) ([]metric.Label, claim) {
	resource, name, slashed := strings.Cut(text, "/")
	if resource == "external" {
		if slashed && !validName(name) {
			return labels, claim{unreadable: true, err: errNamespace}
		}
		return labels, claim{object: metric.Object{Namespace: name}, inSendersNamespace: !slashed}
	}
	canonical, namespaced, err := r.resources.Canonical(resource)
	if err == nil && !validName(name) {
		err = errObject
	}
	if err != nil {
		return labels, claim{unreadable: true, err: err}
	}
	c := claim{object: metric.Object{Resource: canonical, Name: name}}
	if !namespaced {
		return labels, c
	}
	c.inSendersNamespace = true
	for _, vocabulary := range podClaims {
		if namespace, ok := value(labels, vocabulary.namespace); ok {
			c.object.Namespace, c.inSendersNamespace = namespace, false
			labels = without(labels, vocabulary.namespace)
			break
		}
	}
	if !c.inSendersNamespace && !validName(c.object.Namespace) {
		c.unreadable, c.err = true, errNamespace
	}
	return labels, c
}

var (
	errNamespace = errors.New("this is no namespace's name")
	errObject    = fmt.Errorf(`want "<resource>/<name>", "external" or "external/<namespace>" in %s`, ObjectLabel)
)

// podClaims are the pairs of labels by which clients and agents name a pod: our own and Prometheus', OpenTelemetry's
// semantic conventions, Datadog's unified tagging.
var podClaims = [...]struct{ pod, namespace string }{
	{"pod", "namespace"},
	{"k8s.pod.name", "k8s.namespace.name"},
	{"pod_name", "kube_namespace"},
}

// podLabels reads a pod's claim by name. A name that no pod can have is no claim.
func podLabels(labels []metric.Label) ([]metric.Label, claim) {
	for _, c := range podClaims {
		name, named := value(labels, c.pod)
		namespace, spaced := value(labels, c.namespace)
		if !named || !spaced || !validName(name) || !validName(namespace) {
			continue
		}
		o := metric.Object{Resource: pods, Namespace: namespace, Name: name}
		return without(without(labels, c.pod), c.namespace), claim{object: o}
	}
	return labels, claim{none: true}
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
