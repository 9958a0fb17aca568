package identity

import (
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

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
