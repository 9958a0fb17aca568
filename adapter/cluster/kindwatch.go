package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// askAgainAfter is how often a kind that the server does not have is looked for.
const missingKindRetry = time.Minute

// kind watches the objects of one resource, by their metadata. A resource that the server does not have, or does not
// let us see, is not watched meanwhile, and holds up nobody.
type kindWatch struct {
	resource  string
	resources *resources
	client    metadata.Interface
	objects   *objects // nil: of ReplicaSets
	store     cache.ReflectorStore
	listed    func() bool // the whole list was read once
	health    *requestHealth
	backoff   wait.Backoff
	logger    *slog.Logger
	// missing says that the server does not have it.
	missing atomic.Bool
}

// run watches until the context ends.
func (k *kindWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		told := k.resources.nextRefresh()
		one, err := k.resources.find(k.resource)
		if err == nil && one.resource.String() != k.resource {
			err = fmt.Errorf("its name is %s", one.resource) // by which everything else asks
		} else if err == nil && k.watch(one).run(ctx) {
			err = fmt.Errorf("the server has no %s %s any more", one.kind.GroupVersion(), k.resource)
		}
		if ctx.Err() != nil {
			return
		}
		if k.resources.known() {
			k.markMissing(err)
		}
		wait, cancel := context.WithTimeout(ctx, missingKindRetry)
		select {
		case <-told:
		case <-wait.Done():
		}
		cancel()
	}
}

// lost notes that the server does not have the resource, and says so once.
func (k *kindWatch) markMissing(err error) {
	k.resources.requestRefresh()
	k.health.reset()
	if !k.missing.Swap(true) {
		k.logger.Warn("objects of this kind are not watched: the server does not have it; it is looked for now and then",
			"resource", k.resource, "err", err)
	}
}

func (k *kindWatch) watch(one resource) *resourceWatch {
	client := k.client.Resource(one.kind.GroupVersion().WithResource(one.resource.Resource))
	return &resourceWatch{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, options)
			if err == nil {
				k.missing.Store(false)
			}
			return list, err
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := client.Watch(ctx, options)
			if err == nil {
				k.missing.Store(false)
			}
			return events, err
		},
		expected: &metav1.PartialObjectMetadata{},
		store:    k.store,
		health:   k.health,
		backoff:  k.backoff,
	}
}

// watched reports whether what is known of the kind can be relied on.
func (k *kindWatch) reliable() bool { return k.listed() && !k.missing.Load() }

// waitedFor reports whether the kind was not read yet and may be soon.
func (k *kindWatch) pending() bool {
	return !k.listed() && !k.missing.Load() && !apierrors.IsForbidden(k.health.lastError())
}

// remedyFor is the rule that allows to watch a resource.
func remedyFor(one schema.GroupResource) string {
	return fmt.Sprintf("a ClusterRole with apiGroups [%q], resources [%q], verbs [list, watch], bound to the service account of this process",
		one.Group, one.Resource)
}
