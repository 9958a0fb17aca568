package adapter

import (
	"log/slog"
	"net/http"

	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/metric"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/metrics/pkg/apis/custom_metrics"
)

// placeholder is listed while there is no metric: clients take an empty list for a broken API.
const placeholder = "nothing-pushed-yet"

// pods is the placeholder's resource.
var pods = objectKind{resource: schema.GroupResource{Resource: "pods"}, namespaced: true}

// catalogue lists metric names for discovery, up to limit per group.
type catalogue struct {
	source  Source
	objects objects
	limit   int
	// hidden reports whether nobody may read an external metric; nil: none is hidden.
	hidden func(name string) bool
	// routed are the names that other providers list; nil: there are none.
	routed func() []string
}

// custom lists {resource}/{metric}.
func (c catalogue) custom() []metav1.APIResource {
	list := c.list(func(discovered metric.Discovered) (metav1.APIResource, bool) {
		resource, err := c.objects.find(discovered.Resource)
		if err != nil {
			return metav1.APIResource{}, false // the metric could not be requested either
		}
		return customResource(resource, discovered.Name), true
	})
	if len(list) == 0 {
		list = append(list, customResource(pods, placeholder))
	}
	return list
}

func customResource(resource objectKind, name string) metav1.APIResource {
	return metav1.APIResource{
		Name:       resource.resource.String() + "/" + escape(name),
		Namespaced: resource.namespaced,
		Kind:       "MetricValueList",
		Verbs:      metav1.Verbs{"get"},
	}
}

// external lists the names of external metrics: Sluice's own, and those of other providers.
func (c catalogue) external() []metav1.APIResource {
	list := c.list(func(discovered metric.Discovered) (metav1.APIResource, bool) {
		return externalResource(discovered.Name), discovered.Resource == "" && !c.hides(discovered)
	})
	if c.routed != nil {
		list = c.withRouted(list)
	}
	if len(list) == 0 {
		list = append(list, externalResource(placeholder))
	}
	return list
}

// hides reports whether nobody may read an external metric. Of those of objects, policies say nothing.
func (c catalogue) hides(discovered metric.Discovered) bool {
	return discovered.Resource == "" && c.hidden != nil && c.hidden(discovered.Name)
}

// withRouted adds what other providers list, up to limit names of theirs.
func (c catalogue) withRouted(list []metav1.APIResource) []metav1.APIResource {
	seen := make(map[string]bool, len(list))
	for i := range list {
		seen[list[i].Name] = true
	}
	limit := len(list) + c.limit
	for _, name := range c.routed() {
		if name = unescape(name); !c.hides(metric.Discovered{Name: name}) && !seen[escape(name)] && len(list) < limit {
			seen[escape(name)] = true
			list = append(list, externalResource(name))
		}
	}
	return list
}

func externalResource(name string) metav1.APIResource {
	return metav1.APIResource{
		Name:       escape(name),
		Namespaced: true,
		Kind:       "ExternalMetricValueList",
		Verbs:      metav1.Verbs{"get"},
	}
}

// list converts the known metrics with show, each name once (a name may have several kinds).
func (c catalogue) list(show func(metric.Discovered) (metav1.APIResource, bool)) []metav1.APIResource {
	var list []metav1.APIResource
	seen := map[string]bool{}
	for _, discovered := range c.source.Listed(c.limit, c.hides) {
		shown, ok := show(discovered)
		if !ok || seen[shown.Name] {
			continue
		}
		if len(list) == c.limit {
			break
		}
		seen[shown.Name] = true
		list = append(list, shown)
	}
	return list
}

// aggregatedDiscovery answers /apis in the aggregated form (KEP-3352), which newer clients request
// first. The library fills it only for groups installed the usual way; clients would see an empty
// list. Here each read updates it.
type aggregatedDiscovery struct {
	aggregated.ResourceManager
	groups []group
	logger *slog.Logger
}

// ServeHTTP implements http.Handler.
func (d *aggregatedDiscovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, g := range d.groups {
		listed := g.list()
		for _, v := range g.versions {
			resources, err := genericapi.ConvertGroupVersionIntoToDiscovery(withVersion(listed, v))
			if err != nil {
				d.logger.Error("aggregated discovery is out of date", "group_version", v.String(), "error", err)
				continue
			}
			// An unchanged document keeps its ETag.
			d.AddGroupVersion(v.Group, apidiscoveryv2.APIVersionDiscovery{
				Version:   v.Version,
				Resources: resources,
				Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
			})
		}
	}
	d.ResourceManager.ServeHTTP(w, r)
}

// finder is the part of Cluster that builtin.Resources implements too.
type finder interface {
	FindResource(resource string) (kind schema.GroupVersionKind, canonical schema.GroupResource,
		namespaced bool, err error)
}

// objectKind is a resource with its kind, in the version used in answers.
type objectKind struct {
	resource   schema.GroupResource
	kind       schema.GroupVersionKind
	namespaced bool
}

// objects finds resources and, in a cluster, objects.
type objects struct {
	finder
	cluster Cluster // nil: standalone
	// alive is cluster.Alive, stored so that a request allocates no method value.
	alive func(metric.Object) bool
}

// objectsOf uses the cluster, or Kubernetes' built-in resources without one.
func objectsOf(cluster Cluster) objects {
	if cluster == nil {
		return objects{finder: builtin.New()}
	}
	return objects{finder: cluster, cluster: cluster, alive: cluster.Alive}
}

func (o objects) find(resource string) (objectKind, error) {
	kind, canonical, namespaced, err := o.FindResource(resource)
	return objectKind{resource: canonical, kind: kind, namespaced: namespaced}, err
}

// checkWithin rejects an object that is neither in a namespace nor that Namespace itself: who may write into a namespace has no right to
// others, nor to nodes.
func (k objectKind) checkWithin(namespace, object string) error {
	switch {
	case k.namespaced || k.resource == namespaces && object == namespace:
		return nil
	case k.resource == namespaces:
		return metric.InvalidQueryf("the object is the namespace %q; must be the namespace %q, or an object in it", object, namespace)
	}
	return metric.InvalidQueryf("%s are in no namespace; must be an object in the namespace %q, or that namespace", k.resource, namespace)
}

// pick returns the filter of a query: live objects that the labelSelector matches. A request for a
// single object ignores the labelSelector.
func (o objects) pick(kind objectKind, asked customRequest,
	options *metainternalversion.ListOptions) (metric.ObjectFilter, error) {
	selected := options != nil && options.LabelSelector != nil && !options.LabelSelector.Empty()
	switch {
	case selected && o.cluster == nil:
		// An answer with all objects would answer another question.
		return metric.ObjectFilter{}, metric.InvalidQueryf("labelSelector %q is for objects' labels, which are not known without a cluster; "+
			"metricLabelSelector selects series", options.LabelSelector)
	case selected && asked.object == custom_metrics.AllObjects:
		return o.cluster.SelectObjects(kind.resource.String(), asked.namespace, options.LabelSelector)
	}
	pick := metric.ObjectFilter{Match: o.alive}
	if o.cluster != nil && kind.resource == pods.resource {
		pick.Removed = o.cluster.PodsGoneSince
	}
	return pick, nil
}

// usePick makes a query select what the filter selects.
func usePick(q *metric.Query, pick metric.ObjectFilter) {
	q.MatchObject, q.ListObjects, q.RemovedObjects, q.ReadyPods = pick.Match, pick.List, pick.Removed, pick.ReadyPods
}
