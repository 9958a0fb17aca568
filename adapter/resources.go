package adapter

import (
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// Resources knows the resources built into Kubernetes, without a cluster: their groups, kinds and scopes. It is
// never written after it was made, so any goroutine may use it.
type Resources struct {
	// named holds every spelling: plural or singular, with its group or without. A spelling that several
	// groups share holds them all.
	named map[string][]objectKind
}

// objectKind is a resource with its kind, in the version that an answer names.
type objectKind struct {
	resource   schema.GroupResource
	kind       schema.GroupVersionKind
	namespaced bool
}

// clusterScoped are the kinds that live in no namespace. client-go's scheme does not say; a test holds this
// list against its typed clients, which do.
var clusterScoped = sets.New(
	"CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle",
	"ComponentStatus", "CSIDriver", "CSINode", "DeviceClass", "DeviceTaintRule", "FlowSchema", "IngressClass",
	"IPAddress", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
	"Namespace", "Node", "PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourcePoolStatusRequest",
	"ResourceSlice", "RuntimeClass", "ServiceCIDR", "StorageClass", "StorageVersion", "StorageVersionMigration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	"VolumeAttachment", "VolumeAttributesClass",
)

// extensions is the group that others came out of. Its resources are the same objects under an older name, and
// documents still say "ingresses.extensions" (custom metrics API proposal, "Object Types").
const extensions = "extensions"

// NewResources reads the resources off client-go's scheme.
func NewResources() *Resources {
	r := &Resources{named: map[string][]objectKind{}}
	var old []string
	for gk, kind := range newestKinds() {
		plural, singular := meta.UnsafeGuessKindToResource(kind)
		if gk.Group == extensions {
			old = append(old, plural.Resource, singular.Resource)
			continue
		}
		one := objectKind{resource: plural.GroupResource(), kind: kind, namespaced: !clusterScoped.Has(kind.Kind)}
		for _, spelling := range slices.Compact([]string{plural.Resource, singular.Resource}) {
			r.named[spelling] = append(r.named[spelling], one)
			if gk.Group != "" {
				r.named[spelling+"."+gk.Group] = []objectKind{one}
			}
		}
	}
	for _, spelling := range old {
		r.named[spelling+"."+extensions] = r.named[spelling]
	}
	return r
}

// newestKinds are the kinds of the scheme that are objects one can list, each in its newest version.
func newestKinds() map[schema.GroupKind]schema.GroupVersionKind {
	known := scheme.Scheme.AllKnownTypes()
	newest := map[schema.GroupKind]schema.GroupVersionKind{}
	for kind, goType := range known {
		_, isObject := reflect.New(goType).Interface().(metav1.Object)
		_, isListed := known[kind.GroupVersion().WithKind(kind.Kind+"List")]
		if !isObject || !isListed {
			continue
		}
		was, ok := newest[kind.GroupKind()]
		if !ok || version.CompareKubeAwareVersionStrings(kind.Version, was.Version) > 0 {
			newest[kind.GroupKind()] = kind
		}
	}
	return newest
}

// Canonical turns a resource as people write it ("pods", "pod", "deployments.apps", "ingress.extensions") into
// plural[.group], and says whether its objects live in namespaces. An unknown resource is metric.ErrNotFound,
// one that several groups have is metric.ErrInvalidQuery.
func (r *Resources) Canonical(resource string) (canonical string, namespaced bool, err error) {
	one, err := r.find(resource)
	return one.resource.String(), one.namespaced, err
}

// Find implements the part of Cluster that needs no cluster; the errors are those of Canonical. Of the versions of
// a kind it tells the newest.
func (r *Resources) FindResource(resource string) (kind schema.GroupVersionKind, canonical schema.GroupResource, namespaced bool, err error) {
	one, err := r.find(resource)
	return one.kind, one.resource, one.namespaced, err
}

func (r *Resources) find(resource string) (objectKind, error) {
	switch found := r.named[strings.ToLower(resource)]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		return objectKind{}, metric.NotFoundf(
			"no resource %q: without a cluster only those built into Kubernetes are known, such as \"pods\" or \"deployments.apps\"", resource)
	default:
		full := make([]string, len(found))
		for i, one := range found {
			full[i] = one.resource.String()
			if one.resource.Group == "" {
				full[i] += " (core)"
			}
		}
		slices.Sort(full)
		return objectKind{}, metric.InvalidQueryf("resource %q is ambiguous: %s", resource, strings.Join(full, ", "))
	}
}
