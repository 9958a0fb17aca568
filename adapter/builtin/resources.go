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
		one := objectKind{resource: plural.GroupResource(), kind: kind, namespaced: row.namespaced}
		for _, spelling := range slices.Compact([]string{plural.Resource, singular.Resource}) {
			r.named[spelling] = append(r.named[spelling], one)
			if row.group != "" {
				r.named[spelling+"."+row.group] = []objectKind{one}
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
