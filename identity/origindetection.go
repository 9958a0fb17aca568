package identity

import (
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Ways to say which pod a sample comes from without naming it: Datadog's ("Origin detection" in the DogStatsD
// documentation) and OpenTelemetry's. All of them come after the names.
const (
	// EntityLabel is a pod's UID; older clients add it by themselves from DD_ENTITY_ID. The value "none" says that
	// nothing is claimed.
	EntityLabel = "dd.internal.entity_id"
	noEntity    = "none"
	// uidLabel is the same in OpenTelemetry's semantic conventions.
	uidLabel = "k8s.pod.uid"

	containerPrefix    = "ci-"  // "c:" field: a container's ID
	oldContainerPrefix = "cid-" // likewise
	inodePrefix        = "in-"  // a cgroup's inode: only who shares the node's kernel can resolve it
	uidPrefix          = "pu-"  // "e:" field, beside "it-" and "cn-": the pod's UID
)

// podIDs reads a pod's claim by UID or container. A container that cannot be resolved is no claim.
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

// podOfContainer resolves the "c:" field: "ci-<id>", "cid-<id>" or "in-<inode>", several between commas; in the first
// version of the protocol the bare ID.
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

// externalUID takes the pod's UID out of the "e:" field, "it-<init>,cn-<container name>,pu-<pod uid>".
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
