package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// customVersion is that of all custom resources of Sluice.
var customVersion = schema.GroupVersion{Group: "sluice.dev", Version: "v1alpha1"}

// CustomObject is an object of a custom resource. It is immutable.
type CustomObject struct {
	Namespace, Name, UID string
	Generation           int64
	Created              time.Time
	Spec, Status         json.RawMessage // null: none
	// Fault says why the spec is not kept. Empty: it is.
	Fault string
}

// CustomObjects watches one custom resource of Sluice. A resource that is not installed has no objects.
// Those of one that this process may not read are unknown. Neither delays anything.
type CustomObjects struct {
	resource string // plural
	watch    *resourceWatch
	statuses *customStatuses
	changed  func([]*CustomObject)
	logger   *slog.Logger
	kinds    *installedKinds
	room     objectRoom // of specs
	// state changes after changed was called with the objects of the new state.
	state atomic.Pointer[customState]

	mu    sync.Mutex
	named map[objectName]*CustomObject

	telling sync.Mutex    // held while changed is called
	news    chan struct{} // has one while there are changes to tell of
}

// customState is what this process knows of a custom resource. Nil: the API server has not answered.
type customState struct {
	listed bool // the objects were read; otherwise there are none
	// unreadable says which right is missing. Empty: none.
	unreadable string
}

var (
	customListed       = &customState{listed: true}
	customNotInstalled = &customState{}
)

// WatchCustom watches a custom resource of Sluice. After a change, changed gets all objects, sorted by
// namespace and name; an object that is unchanged is the same pointer. A status is no change. It must be
// called before Run.
func (v *View) WatchCustom(resource string, changed func([]*CustomObject)) *CustomObjects {
	client := v.dynamic.Resource(customVersion.WithResource(resource))
	group := schema.GroupResource{Group: customVersion.Group, Resource: resource}
	c := &CustomObjects{resource: resource, changed: changed, logger: v.logger, kinds: v.installedKinds, room: newObjectRoom(freeSpecs, maxSpecs),
		news:     make(chan struct{}, 1),
		statuses: newCustomStatuses(client, v.events.lease, v.logger), named: map[objectName]*CustomObject{}}
	c.watch = &resourceWatch{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, options)
			return list, c.absence(ctx, err)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := client.Watch(ctx, options)
			return events, c.absence(ctx, err)
		},
		expected: &unstructured.Unstructured{}, backoff: backoff, mayBeMissing: true,
		store: &reflectorStore[*CustomObject]{index: c, convert: c.convert},
		health: &requestHealth{resource: group.String(), remedy: remedyFor(group), logger: v.logger,
			probe: v.probe, once: true},
	}
	v.custom = append(v.custom, c)
	return c
}

// absence makes a forbidden request one of a missing resource, if the resource is not installed: the API
// server decides about rights before it looks for the resource. Once listed, the known objects stay in
// use when the right is lost.
func (c *CustomObjects) absence(ctx context.Context, err error) error {
	if state := c.state.Load(); !apierrors.IsForbidden(err) || state != nil && state.listed {
		return err
	}
	installed, failure := c.kinds.discover(ctx)
	switch {
	case failure == nil && !slices.Contains(installed, c.resource):
		return apierrors.NewNotFound(customVersion.WithResource(c.resource).GroupResource(), "")
	case failure == nil || apierrors.IsForbidden(failure):
		c.state.Store(&customState{unreadable: fmt.Sprintf("%s; needed: %s", cause(err), c.watch.health.remedy)})
	}
	return err
}

// run watches until the context ends.
func (c *CustomObjects) run(ctx context.Context) {
	var beside sync.WaitGroup
	beside.Go(func() { c.statuses.run(ctx) })
	beside.Go(func() { c.tellNews(ctx) })
	for ctx.Err() == nil && c.watch.run(ctx) {
		c.watch.health.reset()
		c.replaceBy(nil, customNotInstalled)
		c.kinds.await(ctx, c.resource, missingKindRetry)
	}
	beside.Wait()
}

// Known reports whether changed was called with the objects that the cluster has, or will not be soon:
// see Unreadable.
func (c *CustomObjects) Known() bool { return c.state.Load() != nil }

// Unreadable says which right this process lacks to know the objects. Empty: they are known, or may be
// soon.
func (c *CustomObjects) Unreadable() string {
	if state := c.state.Load(); state != nil {
		return state.unreadable
	}
	return ""
}

func (c *CustomObjects) convert(from any) (*CustomObject, bool) {
	short, ok := newCustomObject(from)
	if ok {
		short = short.keptIn(&c.room)
	}
	return short, ok
}

func newCustomObject(from any) (*CustomObject, bool) {
	u, ok := from.(*unstructured.Unstructured)
	if !ok {
		return nil, false
	}
	c := &CustomObject{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()),
		Generation: u.GetGeneration(), Created: u.GetCreationTimestamp().Time}
	var errSpec, errStatus error
	c.Spec, errSpec = json.Marshal(u.Object["spec"])
	c.Status, errStatus = json.Marshal(u.Object["status"])
	return c, errSpec == nil && errStatus == nil
}

func (c *CustomObjects) put(now *CustomObject) {
	key := objectName{now.Namespace, now.Name}
	c.mu.Lock()
	was := c.named[key]
	c.named[key] = now
	c.statuses.saw(key, now)
	c.mu.Unlock()
	if was == nil || was.UID != now.UID || was.Generation != now.Generation || was.Fault != now.Fault {
		c.tellSoon() // else it is a status, which Sluice writes itself
	}
}

func (c *CustomObjects) drop(namespace, name string) {
	key := objectName{namespace, name}
	c.mu.Lock()
	delete(c.named, key)
	c.room.free(key)
	c.mu.Unlock()
	c.tellSoon()
}

func (c *CustomObjects) replace(all []*CustomObject) { c.replaceBy(all, customListed) }

// replaceBy replaces the objects, with those of a state. It logs that there is no such resource.
func (c *CustomObjects) replaceBy(all []*CustomObject, state *customState) {
	c.mu.Lock()
	clear(c.named)
	for _, customObject := range all {
		c.named[objectName{customObject.Namespace, customObject.Name}] = customObject
	}
	c.room.freeOthers(func(key objectName) bool { return c.named[key] != nil })
	c.mu.Unlock()
	c.tell()
	if was := c.state.Swap(state); state == customNotInstalled && was != state {
		c.logger.Info("a custom resource is not used: the API server does not have it; looking for it every few seconds",
			"resource", c.watch.health.resource)
	}
}

func (c *CustomObjects) tellSoon() {
	select {
	case c.news <- struct{}{}:
	default: // those who are told will see this change, too
	}
}

// tellNews tells of changes until the context ends: of the first one at once, and of those that follow together, so that they
// take a quarter of the time at most, however many objects there are.
func (c *CustomObjects) tellNews(ctx context.Context) {
	for {
		select {
		case <-c.news:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		c.tell()
		sleep(ctx, 3*time.Since(began), nil)
	}
}

// tell calls changed.
func (c *CustomObjects) tell() {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.changed(c.list())
}

// list returns all objects, and drops the statuses of others.
func (c *CustomObjects) list() []*CustomObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses.refresh(c.named)
	return slices.SortedFunc(maps.Values(c.named), func(a, b *CustomObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Report sets the status that an object should have. It is written soon if the object has another
// one, by one of several replicas. The latest status counts; it never blocks.
func (c *CustomObjects) Report(customObject *CustomObject, status CustomStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.named[objectName{customObject.Namespace, customObject.Name}]
	if now != nil && now.UID == customObject.UID && now.Generation == customObject.Generation {
		customObject = now // which has the present status
	}
	c.statuses.put(customObject, status)
}
