package adapter

import (
	"errors"
	"log/slog"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/adapter/route"
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
	// Policies restrict who may read external metrics, beyond the rights that the API server checks.
	// nil: nothing more.
	Policies Policies
	// Inspect lists what this process holds, for the API group inspect.sluice.dev. nil: the group is
	// not served.
	Inspect inspect.Source
	// Routes finds the other providers of external metrics. nil: all are Sluice's.
	Routes *route.Router
	// Usage answers metrics.k8s.io. nil: the group is not served.
	Usage Usage
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
	// Listed returns the existing metrics, sorted by resource (external first) and name: up to
	// limit external ones, then up to limit of objects. Hidden ones are left out, with those that are made of them.
	Listed(limit int, hidden func(metric.Discovered) bool) []metric.Discovered
}

// Policies say which external metrics a reader may ask for. Any goroutine may call them.
type Policies interface {
	policy.Checker
	// Hidden reports whether nobody may read a metric in any namespace. One of another provider is
	// forwarded.
	Hidden(name string, forwarded bool) bool
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
	// matches; for pods with ReadyPods. If the kind is not watched, the error is metric.ErrInvalidQuery and its message
	// names the setting.
	SelectObjects(resource, namespace string, selector labels.Selector) (metric.ObjectFilter, error)
	// Alive reports whether an object's values may be answered: a pod's until it is deleted or has
	// finished.
	Alive(object metric.Object) bool
	// PodsGoneSince lists the pods that Alive may have reported true for at the moment since and
	// reports false for now, as metric.ObjectFilter describes.
	PodsGoneSince(since uint64) (gone []metric.Object, now uint64, ok bool)
}
