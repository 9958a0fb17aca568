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

// clusterScoped are the kinds outside of namespaces. client-go's scheme does not know them; a test
// compares this list with its typed clients, which do.
var clusterScoped = sets.New(
	"CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle",
	"ComponentStatus", "CSIDriver", "CSINode", "DeviceClass", "DeviceTaintRule", "FlowSchema", "IngressClass",
	"IPAddress", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
	"Namespace", "Node", "PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourcePoolStatusRequest",
	"ResourceSlice", "RuntimeClass", "ServiceCIDR", "StorageClass", "StorageVersion", "StorageVersionMigration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	"VolumeAttachment", "VolumeAttributesClass",
)

// extensions is the group that other groups were split from. Documents still use the older names,
// such as "ingresses.extensions" (custom metrics API proposal, "Object Types").
const extensions = "extensions"

// NewResources reads the resources from client-go's scheme.
func NewResources() *Resources {
	r := &Resources{named: map[string][]objectKind{}}
	var old []string
	for gk, kind := range newestKinds() {
		plural, singular := meta.UnsafeGuessKindToResource(kind)
		if gk.Group == extensions {
			old = append(old, plural.Resource, singular.Resource)
			continue
		}
		one := objectKind{resource: plural.GroupResource(), kind: kind,
			namespaced: !clusterScoped.Has(kind.Kind)}
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

// newestKinds are the listable kinds of the scheme, each in its newest version.
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

// Canonical turns any spelling of a resource ("pods", "pod", "deployments.apps",
// "ingress.extensions") into plural[.group], and says whether its objects are in namespaces. An
// unknown resource is metric.ErrNotFound, an ambiguous one metric.ErrInvalidQuery.
func (r *Resources) Canonical(resource string) (canonical string, namespaced bool, err error) {
	one, err := r.find(resource)
	return one.resource.String(), one.namespaced, err
}

// FindResource is Canonical with the kind, in its newest version.
func (r *Resources) FindResource(resource string) (kind schema.GroupVersionKind,
	canonical schema.GroupResource, namespaced bool, err error) {
	one, err := r.find(resource)
	return one.kind, one.resource, one.namespaced, err
}

func (r *Resources) find(resource string) (objectKind, error) {
	switch found := r.named[strings.ToLower(resource)]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		return objectKind{}, metric.NotFoundf(
			"no resource %q: without a cluster, must be built into Kubernetes, such as \"pods\" or \"deployments.apps\"", resource)
	default:
		full := make([]string, len(found))
		for i, one := range found {
			full[i] = one.resource.String()
			if one.resource.Group == "" {
				full[i] += " (core)"
			}
		}
		slices.Sort(full)
		return objectKind{}, metric.InvalidQueryf("resource %q is ambiguous: %s", resource,
			strings.Join(full, ", "))
	}
}
