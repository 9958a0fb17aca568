// Package builtin knows Kubernetes' built-in resources, without a cluster and without the types of their
// objects.
package builtin

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resources knows Kubernetes' built-in resources: their groups, kinds and scopes. It is immutable,
// so any goroutine may use it.
type Resources struct {
	// named holds every spelling: plural or singular, with or without the group. An ambiguous
	// spelling has several resources.
	named map[string][]objectKind
}

// objectKind is a resource with its kind, in the version used in answers.
type objectKind struct {
	resource   schema.GroupResource
	kind       schema.GroupVersionKind
	namespaced bool
}

// extensions is the group that other groups were split from. Documents still use the older names,
// such as "ingresses.extensions" (custom metrics API proposal, "Object Types").
const extensions = "extensions"

// New returns them all.
func New() *Resources {
	r := &Resources{named: map[string][]objectKind{}}
	var old []string
	for _, row := range kinds {
		kind := schema.GroupVersionKind{Group: row.group, Version: row.version, Kind: row.kind}
		plural, singular := meta.UnsafeGuessKindToResource(kind)
		if row.group == extensions {
			old = append(old, plural.Resource, singular.Resource)
			continue
		}
		o := objectKind{resource: plural.GroupResource(), kind: kind, namespaced: row.namespaced}
		for _, spelling := range slices.Compact([]string{plural.Resource, singular.Resource}) {
			r.named[spelling] = append(r.named[spelling], o)
			if row.group != "" {
				r.named[spelling+"."+row.group] = []objectKind{o}
			}
		}
	}
	for _, spelling := range old {
		r.named[spelling+"."+extensions] = r.named[spelling]
	}
	return r
}

// Canonical turns any spelling of a resource ("pods", "pod", "deployments.apps",
// "ingress.extensions") into plural[.group], and says whether its objects are in namespaces. An
// unknown resource is metric.ErrNotFound, an ambiguous one metric.ErrInvalidQuery.
func (r *Resources) Canonical(resource string) (canonical string, namespaced bool, err error) {
	o, err := r.find(resource)
	return o.resource.String(), o.namespaced, err
}

// FindResource is Canonical with the kind, in its newest version.
func (r *Resources) FindResource(resource string) (kind schema.GroupVersionKind,
	canonical schema.GroupResource, namespaced bool, err error) {
	o, err := r.find(resource)
	return o.kind, o.resource, o.namespaced, err
}

func (r *Resources) find(resource string) (objectKind, error) {
	switch found := r.named[strings.ToLower(resource)]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		return objectKind{}, metric.NotFoundf(
			"no resource %q: without a cluster, must be built into Kubernetes, such as \"pods\" or \"deployments.apps\"",
			resource)
	default:
		full := make([]string, len(found))
		for i, o := range found {
			full[i] = o.resource.String()
			if o.resource.Group == "" {
				full[i] += " (core)"
			}
		}
		slices.Sort(full)
		return objectKind{}, metric.InvalidQueryf("resource %q is ambiguous: %s", resource,
			strings.Join(full, ", "))
	}
}

// kinds are the listable kinds of client-go's scheme, each in its newest version. A test compares them with the
// scheme, and their scopes with the typed clients.
var kinds = []struct {
	group, version, kind string
	namespaced           bool
}{
	{"", "v1", "ComponentStatus", false},
	{"", "v1", "ConfigMap", true},
	{"", "v1", "Endpoints", true},
	{"", "v1", "Event", true},
	{"", "v1", "LimitRange", true},
	{"", "v1", "Namespace", false},
	{"", "v1", "Node", false},
	{"", "v1", "PersistentVolume", false},
	{"", "v1", "PersistentVolumeClaim", true},
	{"", "v1", "Pod", true},
	{"", "v1", "PodTemplate", true},
	{"", "v1", "ReplicationController", true},
	{"", "v1", "ResourceQuota", true},
	{"", "v1", "Secret", true},
	{"", "v1", "Service", true},
	{"", "v1", "ServiceAccount", true},
	{"admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", false},
	{"admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding", false},
	{"admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", false},
	{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", false},
	{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", false},
	{"admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", false},
	{"apps", "v1", "ControllerRevision", true},
	{"apps", "v1", "DaemonSet", true},
	{"apps", "v1", "Deployment", true},
	{"apps", "v1", "ReplicaSet", true},
	{"apps", "v1", "StatefulSet", true},
	{"autoscaling", "v2", "HorizontalPodAutoscaler", true},
	{"batch", "v1", "CronJob", true},
	{"batch", "v1", "Job", true},
	{"certificates.k8s.io", "v1", "CertificateSigningRequest", false},
	{"certificates.k8s.io", "v1beta1", "ClusterTrustBundle", false},
	{"certificates.k8s.io", "v1beta1", "PodCertificateRequest", true},
	{"coordination.k8s.io", "v1", "Lease", true},
	{"coordination.k8s.io", "v1beta1", "LeaseCandidate", true},
	{"discovery.k8s.io", "v1", "EndpointSlice", true},
	{"events.k8s.io", "v1", "Event", true},
	{"extensions", "v1beta1", "DaemonSet", true},
	{"extensions", "v1beta1", "Deployment", true},
	{"extensions", "v1beta1", "Ingress", true},
	{"extensions", "v1beta1", "NetworkPolicy", true},
	{"extensions", "v1beta1", "ReplicaSet", true},
	{"flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", false},
	{"flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", false},
	{"internal.apiserver.k8s.io", "v1alpha1", "StorageVersion", false},
	{"networking.k8s.io", "v1", "IPAddress", false},
	{"networking.k8s.io", "v1", "Ingress", true},
	{"networking.k8s.io", "v1", "IngressClass", false},
	{"networking.k8s.io", "v1", "NetworkPolicy", true},
	{"networking.k8s.io", "v1", "ServiceCIDR", false},
	{"node.k8s.io", "v1", "RuntimeClass", false},
	{"policy", "v1", "PodDisruptionBudget", true},
	{"rbac.authorization.k8s.io", "v1", "ClusterRole", false},
	{"rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", false},
	{"rbac.authorization.k8s.io", "v1", "Role", true},
	{"rbac.authorization.k8s.io", "v1", "RoleBinding", true},
	{"resource.k8s.io", "v1", "DeviceClass", false},
	{"resource.k8s.io", "v1", "ResourceClaim", true},
	{"resource.k8s.io", "v1", "ResourceClaimTemplate", true},
	{"resource.k8s.io", "v1", "ResourceSlice", false},
	{"resource.k8s.io", "v1alpha3", "ResourcePoolStatusRequest", false},
	{"resource.k8s.io", "v1beta2", "DeviceTaintRule", false},
	{"scheduling.k8s.io", "v1", "PriorityClass", false},
	{"scheduling.k8s.io", "v1alpha2", "PodGroup", true},
	{"scheduling.k8s.io", "v1alpha2", "Workload", true},
	{"storage.k8s.io", "v1", "CSIDriver", false},
	{"storage.k8s.io", "v1", "CSINode", false},
	{"storage.k8s.io", "v1", "CSIStorageCapacity", true},
	{"storage.k8s.io", "v1", "StorageClass", false},
	{"storage.k8s.io", "v1", "VolumeAttachment", false},
	{"storage.k8s.io", "v1", "VolumeAttributesClass", false},
	{"storagemigration.k8s.io", "v1beta1", "StorageVersionMigration", false},
}
