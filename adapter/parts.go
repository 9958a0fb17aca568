package adapter

import (
	"errors"
	"iter"
	"log/slog"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Parts is what a Server works with. Cluster and API are both given, or neither: standalone.
type Parts struct {
	Source Source
	// Cluster knows the objects.
	Cluster Cluster
	// Counted knows what workloads have pushed. nil: a pod without a series is not found.
	Workloads Workloads
	// API is how the cluster's API server is reached, which decides who may read. It need not be there at start.
	API *rest.Config
	// Ready says whether an answer would be whole, and if not what is waited for. It is asked with every request.
	// nil: always.
	Ready  func() (bool, string)
	Logger *slog.Logger
}

func (p Parts) validate() error {
	if (p.Cluster == nil) != (p.API == nil) {
		return errors.New("Parts.Cluster, Parts.API: give both or neither: what a cluster's objects do is read by whom its API server allows")
	}
	return nil
}

// Source answers what the API is asked. Its errors are told apart with errors.Is: metric.ErrNotFound,
// metric.ErrInvalidQuery; their messages are shown to the reader. It is called from many goroutines at once.
type Source interface {
	// Objects returns one point for each object that has the metric. The points are the caller's, who may write over them.
	Objects(metric.Query) ([]metric.Point, error)
	// External returns the points of a namespace's external metric, which the reader will add up; likewise.
	External(metric.Query) ([]metric.Point, error)
	// Zero returns the point of a counter or a set that received nothing, without its object.
	Zero(metric.Expression) metric.Point
	// Listed returns metrics that exist, sorted by resource (external first) and name: the first limit of external ones,
	// then the first limit of objects'.
	Listed(limit int) []metric.Discovered
}

// Cluster is what the API has to know of a cluster's objects. It answers from memory and is called from many
// goroutines at once, with every request: a query never waits for the API server.
type Cluster interface {
	// Find gives a resource as people write it ("pods", "pod", "deployments.apps") its kind, its canonical name and
	// its scope. An unknown resource is metric.ErrNotFound, one that several groups have is metric.ErrInvalidQuery.
	FindResource(resource string) (kind schema.GroupVersionKind, canonical schema.GroupResource, namespaced bool, err error)
	// Matching returns what picks the objects of a kind that live and whose own labels the selector matches. It is
	// metric.ErrInvalidQuery, and the message names the setting, where objects of that kind are not watched.
	SelectObjects(resource, namespace string, selector labels.Selector) (metric.ObjectFilter, error)
	// Alive says whether an object's values may be answered: a pod's until it is deleted or has finished.
	Alive(object metric.Object) bool
	// Gone lists the pods that Alive may have said yes of at the moment since and does not any more, as metric.ObjectFilter has it.
	PodsGoneSince(since uint64) (gone []metric.Object, now uint64, ok bool)
	// ReadyPods returns the pods of a namespace that are ready and that the selector matches (nil: all of them), in any
	// order, with their workloads; pods without a controller are left out. It says how many pods the selector matches,
	// ready or not.
	ReadyPods(namespace string, selector labels.Selector) (all iter.Seq2[metric.Object, metric.Workload], live int)
	// ReadyPod returns a pod with its workload. Not ok: no such pod lives, it is not ready, or it has no controller.
	ReadyPod(namespace, name string) (o metric.Object, of metric.Workload, ok bool)
}

// Counted remembers which counters and sets the pods of a workload have pushed. It answers from memory.
type Workloads interface {
	// Any reports whether a pod of the namespace has pushed a counter or a set of that name.
	AnyPushed(namespace, name string) bool
	// By returns the kind of the metric that a pod of the workload has pushed with labels that match (nil: any).
	// metric.NoKind: none has.
	PushedKind(of metric.Workload, name string, match func(metric.Labels) bool) metric.Kind
}
