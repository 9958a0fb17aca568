package adapter

import (
	"iter"

	"github.com/sluice-metrics/sluice/metric"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"
)

// Cluster is what the API has to know of a cluster's objects. It answers from memory and is called from many
// goroutines at once, with every request: a query never waits for the API server.
type Cluster interface {
	// Find gives a resource as people write it ("pods", "pod", "deployments.apps") its kind, its canonical name and
	// its scope. An unknown resource is metric.ErrNotFound, one that several groups have is metric.ErrAsked.
	FindResource(resource string) (kind schema.GroupVersionKind, canonical schema.GroupResource, namespaced bool, err error)
	// Matching returns what picks the objects of a kind that live and whose own labels the selector matches. It is
	// metric.ErrAsked, and the message names the setting, where objects of that kind are not watched.
	SelectObjects(resource, namespace string, selector labels.Selector) (metric.Pick, error)
	// Alive says whether an object's values may be answered: a pod's until it is deleted or has finished.
	Alive(object metric.Object) bool
	// Gone lists the pods that Alive may have said yes of at the moment since and does not any more, as metric.Pick has it.
	PodsGoneSince(since uint64) (gone []metric.Object, now uint64, ok bool)
	// ReadyPods returns the pods of a namespace that are ready and that the selector matches (nil: all of them), in any
	// order, with their workloads; pods without a controller are left out. It says how many pods the selector matches,
	// ready or not.
	ReadyPods(namespace string, selector labels.Selector) (all iter.Seq2[metric.Object, metric.Workload], live int)
	// ReadyPod returns a pod with its workload. Not ok: no such pod lives, it is not ready, or it has no controller.
	ReadyPod(namespace, name string) (o metric.Object, of metric.Workload, ok bool)
}

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
func (o objects) pick(kind objectKind, asked customRequest, options *metainternalversion.ListOptions) (metric.Pick, error) {
	selected := options != nil && options.LabelSelector != nil && !options.LabelSelector.Empty()
	switch {
	case selected && o.cluster == nil:
		// Answering with all objects would be answering another question.
		return metric.Pick{}, metric.CannotAskf("labelSelector %q picks objects by their labels, which are not known without a cluster; "+
			"metricLabelSelector picks series", options.LabelSelector)
	case selected && asked.object == custom_metrics.AllObjects:
		return o.cluster.SelectObjects(kind.resource.String(), asked.namespace, options.LabelSelector)
	}
	pick := metric.Pick{Takes: o.alive}
	if o.cluster != nil && kind.resource == pods.resource {
		pick.Gone = o.cluster.PodsGoneSince
	}
	return pick, nil
}
