package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// resource is one resource of the cluster, with its kind in the server's preferred version.
type resource struct {
	resource   schema.GroupResource
	kind       schema.GroupVersionKind
	namespaced bool
}

// resources holds the resources that the last discovery found.
type resources struct {
	current atomic.Pointer[resourceNames]
	// refresh requests a discovery; its capacity is one.
	refresh chan struct{}

	mu        sync.Mutex
	refreshed chan struct{}
}

// resourceNames is one state of resources. It is immutable.
type resourceNames struct {
	all []resource
	// named holds every spelling: plural or singular, with or without the group.
	named map[string][]resource
}

func newResources() *resources {
	return &resources{refresh: make(chan struct{}, 1), refreshed: make(chan struct{})}
}

// nextRefresh is closed after the next discovery, even an unchanged one: a missing resource may
// have returned.
func (r *resources) nextRefresh() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refreshed
}

// set replaces the resources, and reports whether they changed.
func (r *resources) set(all []resource) bool {
	was := r.current.Load()
	changed := was == nil || !slices.Equal(was.all, all)
	if changed {
		r.current.Store(newResourceNames(all))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.refreshed)
	r.refreshed = make(chan struct{})
	return changed
}

// known reports whether discovery has succeeded once.
func (r *resources) known() bool { return r.current.Load() != nil }

// requestRefresh requests a discovery, at the next permitted time.
func (r *resources) requestRefresh() {
	select {
	case r.refresh <- struct{}{}:
	default:
	}
}

// find never waits: an unknown resource is an error and requests a discovery.
func (r *resources) find(spelling string) (resource, error) {
	names := r.current.Load()
	if names == nil {
		return resource{}, metric.NotReadyf("resource %q is not known yet: the API server has not answered discovery so far",
			spelling)
	}
	switch found := names.find(strings.ToLower(spelling)); len(found) {
	case 1:
		return found[0], nil
	case 0:
		r.requestRefresh()
		return resource{}, metric.NotFoundf("no resource %q in this cluster", spelling)
	default:
		full := make([]string, len(found))
		for i, one := range found {
			full[i] = one.resource.String()
		}
		slices.Sort(full)
		return resource{}, metric.InvalidQueryf("resource %q is ambiguous: %s", spelling,
			strings.Join(full, ", "))
	}
}

// olderGroup is the group that other groups were split from. Documents still use the older names,
// such as "ingresses.extensions" (custom metrics API proposal, "Object Types").
const olderGroup = ".extensions"

var inOlderGroup = sets.New("deployments", "deployment", "daemonsets", "daemonset", "replicasets",
	"replicaset",
	"ingresses", "ingress", "networkpolicies", "networkpolicy")

func (n *resourceNames) find(spelling string) []resource {
	if found := n.named[spelling]; len(found) > 0 {
		return found
	}
	if bare, ok := strings.CutSuffix(spelling, olderGroup); ok && inOlderGroup.Has(bare) {
		return n.named[bare]
	}
	return nil
}

func newResourceNames(all []resource) *resourceNames {
	n := &resourceNames{all: all, named: map[string][]resource{}}
	for _, r := range all {
		singular := strings.ToLower(r.kind.Kind)
		for _, spelling := range slices.Compact([]string{r.resource.Resource, singular}) {
			n.named[spelling] = append(n.named[spelling], r)
			if r.resource.Group != "" {
				n.named[spelling+"."+r.resource.Group] = []resource{r}
			}
		}
	}
	// A resource of the core group owns its bare name, because it has no longer one.
	for spelling, several := range n.named {
		if i := slices.IndexFunc(several, func(r resource) bool { return r.resource.Group == "" }); i >= 0 {
			n.named[spelling] = several[i : i+1]
		}
	}
	return n
}

// isMetricsGroup reports whether a group's resources are measurements of objects. Those of
// metrics.k8s.io are called "pods" and "nodes" too, and those of external.metrics.k8s.io are
// whatever was pushed.
func isMetricsGroup(group string) bool {
	return group == "metrics.k8s.io" || strings.HasSuffix(group, ".metrics.k8s.io")
}

// resourcesOf converts the result of discovery, in the server's order of preference. Groups whose
// server is away keep their previous resources.
func resourcesOf(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, before []resource,
	away sets.Set[string]) []resource {
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	found := map[schema.GroupResource]resource{}
	for _, group := range groups {
		if isMetricsGroup(group.Name) {
			continue
		}
		for _, version := range preferredFirst(group) {
			for _, apiResource := range listable(byVersion[version.GroupVersion]) {
				gr := schema.GroupResource{Group: group.Name, Resource: apiResource.Name}
				if _, ok := found[gr]; !ok {
					kind := schema.GroupVersionKind{Group: group.Name, Version: version.Version,
						Kind: apiResource.Kind}
					found[gr] = resource{resource: gr, kind: kind, namespaced: apiResource.Namespaced}
				}
			}
		}
	}
	for _, r := range before {
		if _, ok := found[r.resource]; !ok && away.Has(r.resource.Group) {
			found[r.resource] = r
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b resource) int {
		return cmp.Or(cmp.Compare(a.resource.Group, b.resource.Group),
			cmp.Compare(a.resource.Resource, b.resource.Resource))
	})
}

func preferredFirst(group *metav1.APIGroup) []metav1.GroupVersionForDiscovery {
	return append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...)
}

// listable returns the resources that are objects. A resource that cannot be listed, such as
// TokenReview, is not.
func listable(list *metav1.APIResourceList) []metav1.APIResource {
	if list == nil {
		return nil
	}
	var all []metav1.APIResource
	for _, apiResource := range list.APIResources {
		if !strings.Contains(apiResource.Name, "/") && slices.Contains(apiResource.Verbs, "list") {
			all = append(all, apiResource)
		}
	}
	return all
}
