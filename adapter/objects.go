package adapter

import (
	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/metric"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"
)

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
