package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// object is the part of an object of a watched kind that is kept.
type object struct {
	namespace, name, uid string
	created              int64 // Unix seconds
	labels               labelSet
}

func newObject(from any) (*object, bool) {
	p, ok := from.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, false
	}
	return &object{namespace: p.Namespace, name: p.Name, uid: string(p.UID),
		created: p.CreationTimestamp.Unix(), labels: newLabelSet(p.Labels)}, true
}

// convert makes the kept part of an object; without room, that without its labels.
func (o *objects) convert(from any) (*object, bool) {
	short, ok := newObject(from)
	if ok {
		short.labels = o.room.keptLabels(objectName{short.namespace, short.name}, short.labels)
	}
	return short, ok
}

type objectName struct{ namespace, name string }

// objects indexes the objects of one kind. One goroutine writes.
type objects struct {
	observer *Observer
	resource string
	room     objectRoom // of their labels

	mu    sync.RWMutex
	named map[objectName]*object
}

func newObjects(resource string, observer *Observer) *objects {
	return &objects{resource: resource, observer: observer, room: newLabelRoom().ofKind(), named: map[objectName]*object{}}
}

func (o *objects) put(now *object) {
	key := objectName{now.namespace, now.name}
	o.mu.Lock()
	was := o.named[key]
	o.named[key] = now
	o.mu.Unlock()
	if was == nil || was.uid != now.uid {
		o.observer.objectAdded(o.of(now))
	}
	if was != nil && was.uid != now.uid {
		o.gone(was)
	}
}

func (o *objects) drop(namespace, name string) {
	key := objectName{namespace, name}
	o.mu.Lock()
	was := o.named[key]
	delete(o.named, key)
	o.mu.Unlock()
	o.room.free(key)
	if was != nil {
		o.gone(was)
	}
}

func (o *objects) replace(all []*object) {
	listed := make(map[objectName]bool, len(all))
	for _, one := range all {
		listed[objectName{one.namespace, one.name}] = true
		o.put(one)
	}
	var gone []objectName
	o.mu.RLock()
	for key := range o.named {
		if !listed[key] {
			gone = append(gone, key)
		}
	}
	o.mu.RUnlock()
	for _, key := range gone {
		o.drop(key.namespace, key.name)
	}
	o.room.freeOthers(func(key objectName) bool { return listed[key] })
}

func (o *objects) gone(was *object) { o.observer.objectGone(o.of(was)) }

func (o *objects) of(one *object) metric.Object {
	return metric.Object{Resource: o.resource, Namespace: one.namespace, Name: one.name, UID: one.uid}
}

// find returns the object, or nil.
func (o *objects) find(namespace, name string) *object {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.named[objectName{namespace, name}]
}

// missingKindRetry is the interval at which a missing kind is looked for.
const missingKindRetry = time.Minute

// kindWatch watches the metadata of one resource's objects. A resource that is missing or forbidden
// is not watched, and delays nothing.
type kindWatch struct {
	resource  string
	resources *resources
	client    metadata.Interface
	objects   *objects // nil: ReplicaSets
	store     cache.TransformingStore
	listed    func() bool // reports whether the list was read once
	health    *requestHealth
	backoff   wait.Backoff
	logger    *slog.Logger
	// missing: the server does not have the resource.
	missing atomic.Bool
}

// run watches until the context ends.
func (k *kindWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		told := k.resources.nextRefresh()
		r, err := k.resources.find(k.resource)
		if err == nil && r.resource.String() != k.resource {
			err = fmt.Errorf("the canonical name is %s", r.resource) // the name that all other code uses
		} else if err == nil && k.watch(r).run(ctx) {
			err = fmt.Errorf("the server no longer has %s %s", r.kind.GroupVersion(), k.resource)
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

// markMissing records that the server does not have the resource, and logs it once.
func (k *kindWatch) markMissing(err error) {
	k.resources.requestRefresh()
	k.health.reset()
	if !k.missing.Swap(true) {
		k.logger.Warn("objects of this kind are not watched: the server does not have the kind; retrying every minute",
			"resource", k.resource, "err", err)
	}
}

func (k *kindWatch) watch(r resource) *resourceWatch {
	client := k.client.Resource(r.kind.GroupVersion().WithResource(r.resource.Resource))
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

// reliable reports whether the known objects of the kind are complete.
func (k *kindWatch) reliable() bool { return k.listed() && !k.missing.Load() }

// pending reports whether the kind was not read yet, but may be soon.
func (k *kindWatch) pending() bool {
	return !k.listed() && !k.missing.Load() && !apierrors.IsForbidden(k.health.lastError())
}

// remedyFor describes the RBAC rule that allows watching a resource.
func remedyFor(groupResource schema.GroupResource) string {
	return fmt.Sprintf("a ClusterRole with apiGroups [%q], resources [%q], verbs [list, watch], bound to the service account of this process",
		groupResource.Group, groupResource.Resource)
}
