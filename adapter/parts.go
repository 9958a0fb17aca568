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

// Parts are the dependencies of a Server. Cluster and API are both set, or neither: standalone.
type Parts struct {
	Source Source
	// Cluster knows the objects.
	Cluster Cluster
	// Workloads knows the metrics that workloads have pushed. nil: a pod without a series is not
	// found.
	Workloads Workloads
	// API configures the connection to the cluster's API server, which authenticates and authorizes
	// clients. The API server may be unavailable at the start.
	API *rest.Config
	// Ready reports whether an answer would be complete, and what is missing otherwise. It is
	// called with every request. nil: always ready.
	Ready  func() (bool, string)
	Logger *slog.Logger
}

func (p Parts) validate() error {
	if (p.Cluster == nil) != (p.API == nil) {
		return errors.New("Parts.Cluster, Parts.API: must both be set or both be empty, because a cluster's API server decides who may read about its objects")
	}
	return nil
}

// Source answers queries. Its errors wrap metric.ErrNotFound or metric.ErrInvalidQuery, and clients
// see their messages. Any goroutine may call it.
type Source interface {
	// Objects returns one point per object that has the metric. The caller owns the points.
	Objects(metric.Query) ([]metric.Point, error)
	// External returns the points of a namespace's external metric, which the client adds up. The
	// caller owns the points.
	External(metric.Query) ([]metric.Point, error)
	// Zero returns the point of a counter or set without samples, without its object.
	Zero(metric.Expression) metric.Point
	// Listed returns the existing metrics, sorted by resource (external first) and name: up to
	// limit external ones, then up to limit of objects.
	Listed(limit int) []metric.Discovered
}

// Cluster is the part of the cluster view that the API needs. Its methods answer from memory: no
// query waits for the API server. Any goroutine may call them.
type Cluster interface {
	// FindResource returns the kind, the canonical name and the scope of a resource, in any
	// spelling ("pods", "pod", "deployments.apps"). An unknown resource is metric.ErrNotFound, an
	// ambiguous one metric.ErrInvalidQuery.
	FindResource(resource string) (kind schema.GroupVersionKind, canonical schema.GroupResource,
		namespaced bool, err error)
	// SelectObjects returns a filter for the live objects of a kind whose own labels the selector
	// matches. If the kind is not watched, the error is metric.ErrInvalidQuery and its message
	// names the setting.
	SelectObjects(resource, namespace string, selector labels.Selector) (metric.ObjectFilter, error)
	// Alive reports whether an object's values may be answered: a pod's until it is deleted or has
	// finished.
	Alive(object metric.Object) bool
	// PodsGoneSince lists the pods that Alive may have reported true for at the moment since and
	// reports false for now, as metric.ObjectFilter describes.
	PodsGoneSince(since uint64) (gone []metric.Object, now uint64, ok bool)
	// ReadyPods returns the ready pods of a namespace that the selector matches (nil: all), in any
	// order, with their workloads, without pods that have no controller. live is the number of
	// matching pods, ready or not.
	ReadyPods(namespace string, selector labels.Selector) (all iter.Seq2[metric.Object, metric.Workload], live int)
	// ReadyPod returns a pod with its workload. Not ok: no such pod lives, it is not ready, or it
	// has no controller.
	ReadyPod(namespace, name string) (o metric.Object, of metric.Workload, ok bool)
}

// Workloads knows which counters and sets the pods of a workload have pushed. Its methods answer
// from memory.
type Workloads interface {
	// AnyPushed reports whether a pod of the namespace has pushed a counter or a set of that name.
	AnyPushed(namespace, name string) bool
	// PushedKind returns the kind of a metric that a pod of the workload has pushed with matching
	// labels (match nil: any). metric.NoKind: none has.
	PushedKind(of metric.Workload, name string, match func(metric.Labels) bool) metric.Kind
}
