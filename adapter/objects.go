package adapter

import (
	"github.com/sluice-metrics/sluice/metric"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"
)

// finder is the part of Cluster that Resources has, too.
type finder interface {
	FindResource(resource string) (kind schema.GroupVersionKind, canonical schema.GroupResource, namespaced bool, err error)
}

// objects knows resources, and objects where there is a cluster.
type objects struct {
	finder
	cluster Cluster // nil: standalone
	// alive is cluster.Alive, made a function once and not with every request.
	alive func(metric.Object) bool
}

// objectsOf takes the resources off the cluster, or those built into Kubernetes where there is none.
func objectsOf(cluster Cluster) objects {
	if cluster == nil {
		return objects{finder: NewResources()}
	}
	return objects{finder: cluster, cluster: cluster, alive: cluster.Alive}
}

func (o objects) find(resource string) (objectKind, error) {
	kind, canonical, namespaced, err := o.FindResource(resource)
	return objectKind{resource: canonical, kind: kind, namespaced: namespaced}, err
}

// pick is what a query takes objects by: their own labels and that they live. Of an object asked for by its name
// the labels play no part.
func (o objects) pick(kind objectKind, asked customRequest, options *metainternalversion.ListOptions) (metric.ObjectFilter, error) {
	selected := options != nil && options.LabelSelector != nil && !options.LabelSelector.Empty()
	switch {
	case selected && o.cluster == nil:
		// Answering with all objects would be answering another question.
		return metric.ObjectFilter{}, metric.InvalidQueryf("labelSelector %q picks objects by their labels, which are not known without a cluster; "+
			"metricLabelSelector picks series", options.LabelSelector)
	case selected && asked.object == custom_metrics.AllObjects:
		return o.cluster.SelectObjects(kind.resource.String(), asked.namespace, options.LabelSelector)
	}
	pick := metric.ObjectFilter{Match: o.alive}
	if o.cluster != nil && kind.resource == pods.resource {
		pick.Removed = o.cluster.PodsGoneSince
	}
	return pick, nil
}
