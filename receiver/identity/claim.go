package identity

import (
	"errors"
	"hash/maphash"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// ObjectLabel holds an explicit claim: "<resource[.group]>/<name>", "external" or
// "external/<namespace>".
const ObjectLabel = "sluice_object"

const pods = "pods"

// claim is the object that a sample's labels name. Its strings are borrowed from the sample.
type claim struct {
	object metric.Object
	// inSendersNamespace: the claim names no namespace, so the sender's applies.
	inSendersNamespace bool
	// pod is the pod of a claimed container; uid is a claimed pod UID.
	pod *metric.Pod
	uid string
	// none: the sample claims nothing.
	none bool
	// unreadable: the claim is invalid; err says why.
	unreadable bool
	err        error
}

func (c *claim) byUID() bool { return c.pod != nil || c.uid != "" }

// claimed parses the claim of a sample. It appends the sample's labels to labels, without those
// that made the claim.
func (r *Resolver) claimed(s *metric.Sample, labels []metric.Label) ([]metric.Label, claim) {
	labels = s.AppendLabels(labels)
	if s.Object != nil {
		return labels, claim{object: *s.Object}
	}
	if s.Sender != nil && s.Sender.Claimed { // they said who sends: see Claimant
		labels = without(without(labels, EntityLabel), uidLabel)
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

// explicit parses the value of ObjectLabel.
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
	errNamespace = errors.New("the namespace's name is invalid")
	errObject    = errors.New(`must be "<resource>/<name>", "external" or "external/<namespace>"`)
)

// podClaims are the pairs of labels by which clients and agents name a pod: Sluice's and
// Prometheus', OpenTelemetry's semantic conventions, Datadog's unified tagging.
var podClaims = [...]struct{ pod, namespace string }{
	{"pod", "namespace"},
	{"k8s.pod.name", "k8s.namespace.name"},
	{"pod_name", "kube_namespace"},
}

// podLabels parses a claim of a pod by name. A name that no pod can have is not a claim.
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

// value returns the value of the first label with the key.
func value(labels []metric.Label, key string) (string, bool) {
	for _, l := range labels {
		if l.Key == key {
			return l.Value, true
		}
	}
	return "", false
}

// without removes all labels with the key, in place.
func without(labels []metric.Label, key string) []metric.Label {
	kept := labels[:0]
	for _, l := range labels {
		if l.Key != key {
			kept = append(kept, l)
		}
	}
	return kept
}

// validName reports whether an object could have the name: a path segment of at most 253 bytes
// (Kubernetes' "Object Names and IDs"). Other names that an API server rejects do no harm here.
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

// Labels and fields that identify a sample's pod without naming it: Datadog's ("Origin detection"
// in the DogStatsD documentation) and OpenTelemetry's. Names take precedence over all of them.
const (
	// EntityLabel holds a pod's UID. Older Datadog clients add it from DD_ENTITY_ID. The value
	// "none" claims nothing.
	EntityLabel = "dd.internal.entity_id"
	noEntity    = "none"
	// uidLabel holds a pod's UID in OpenTelemetry's semantic conventions.
	uidLabel = "k8s.pod.uid"

	containerPrefix    = "ci-"  // "c:" field: a container's ID
	oldContainerPrefix = "cid-" // "c:" field: a container's ID, older form
	// "c:" field: a cgroup's inode, which only a process on the same node can resolve
	inodePrefix = "in-"
	uidPrefix   = "pu-" // "e:" field, beside "it-" and "cn-": the pod's UID
)

// podIDs parses a claim of a pod by UID or container. A container that cannot be resolved is not a
// claim.
func (r *Resolver) podIDs(s *metric.Sample, labels []metric.Label) ([]metric.Label, claim) {
	if uid, ok := value(labels, EntityLabel); ok && uid != noEntity && validName(uid) {
		return without(labels, EntityLabel), claim{uid: uid}
	}
	if uid, ok := value(labels, uidLabel); ok && validName(uid) {
		return without(labels, uidLabel), claim{uid: uid}
	}
	if pod := r.podOfContainer(metric.Borrow(s.Container)); pod != nil {
		return labels, claim{pod: pod}
	}
	if uid := externalUID(metric.Borrow(s.External)); validName(uid) {
		return labels, claim{uid: uid}
	}
	return labels, claim{none: true, inSendersNamespace: true}
}

// Claimant returns the sender of a sample that has no address: the pod that it names by its UID or container, in
// which any process that reaches the socket may lie. Nil: the pod is not known. Without such a claim it is false.
func (r *Resolver) Claimant(s *metric.Sample) (sender *metric.Sender, claims bool) {
	_, c := r.podIDs(s, s.AppendLabels(nil))
	pod := c.pod
	if c.uid != "" {
		pod = r.cluster.PodWithUID(c.uid)
	}
	if pod == nil {
		inode := strings.HasPrefix(metric.Borrow(s.Container), inodePrefix)
		return nil, c.uid != "" || len(s.Container) > 0 && !inode
	}
	key := maphash.String(claimantSeed, pod.UID) | metric.LocalKey
	return &metric.Sender{Key: key, Pod: pod, Known: true, Claimed: true}, true
}

var claimantSeed = maphash.MakeSeed()

// podOfContainer resolves the "c:" field: "ci-<id>", "cid-<id>" or "in-<inode>", separated by
// commas; in the first version of the protocol the bare ID.
func (r *Resolver) podOfContainer(field string) *metric.Pod {
	for rest := field; rest != ""; {
		var id string
		id, rest, _ = strings.Cut(rest, ",")
		if strings.HasPrefix(id, inodePrefix) {
			continue
		}
		id = strings.TrimPrefix(strings.TrimPrefix(id, containerPrefix), oldContainerPrefix)
		if !validName(id) {
			continue
		}
		if pod := r.cluster.PodWithContainer(id); pod != nil {
			return pod
		}
	}
	return nil
}

// externalUID returns the pod's UID from the "e:" field, "it-<init>,cn-<container name>,pu-<pod
// uid>".
func externalUID(field string) string {
	for rest := field; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		if uid, ok := strings.CutPrefix(part, uidPrefix); ok {
			return uid
		}
	}
	return ""
}
