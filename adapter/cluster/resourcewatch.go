package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// resourceWatch keeps one store up to date with the API server. It sits between Reflector and
// client to see every request and its outcome: a Reflector alone retries a refused connection
// silently.
type resourceWatch struct {
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)
	expected runtime.Object
	store    cache.TransformingStore
	health   *requestHealth
	backoff  wait.Backoff
	// mayBeMissing: that the server has no such resource is no failure.
	mayBeMissing bool
}

// run watches until the context ends, or until the API server has no such resource; it returns true
// then.
func (w *resourceWatch) run(ctx context.Context) (missing bool) {
	pauses, within := newBackoffClock(ctx, w.backoff, w.health.probe), w.backoff
	reflector := cache.NewReflectorWithOptions(w, w.expected, w.store, cache.ReflectorOptions{
		Name: w.health.resource, Clock: pauses, Backoff: &within,
	})
	for ctx.Err() == nil {
		// record has seen all errors.
		if apierrors.IsNotFound(reflector.ListAndWatchWithContext(ctx)) {
			return ctx.Err() == nil
		}
		<-pauses.After(0)
	}
	return false
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (w *resourceWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := w.watch(ctx, options)
	if streamed := options.SendInitialEvents != nil; streamed && apierrors.IsInvalid(err) {
		return events, err // the API server cannot stream a list; a list follows
	}
	w.record(ctx, err)
	return events, err
}

// List implements cache.ListerWatcher.
func (w *resourceWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (w *resourceWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), options)
}

func (w *resourceWatch) record(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, w.mayBeMissing && apierrors.IsNotFound(err):
	case err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		w.health.recordSuccess()
	default:
		w.health.recordFailure(err)
	}
}

// index holds the objects of one kind in their short form T. One goroutine writes.
type index[T any] interface {
	put(T)
	drop(namespace, name string)
	replace([]T)
}

// reflectorStore is the store of a Reflector. It converts each object to its short form and puts
// that into an index.
type reflectorStore[T any] struct {
	index   index[T]
	convert func(object any) (T, bool)
	// listed: the whole list was read once.
	listed atomic.Bool
}

var _ cache.TransformingStore = (*reflectorStore[any])(nil)

// Transformer implements cache.TransformingStore. It converts a streamed first list object by
// object.
func (m *reflectorStore[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return m.converted(object) }
}

func (m *reflectorStore[T]) converted(object any) (T, error) {
	if item, ok := object.(converted); ok {
		object = item.short
	}
	if already, ok := object.(T); ok {
		return already, nil
	}
	short, ok := m.convert(object)
	if !ok {
		return short, fmt.Errorf("cannot convert a %T to a %T", object, short)
	}
	return short, nil
}

// Add implements cache.ReflectorStore.
func (m *reflectorStore[T]) Add(object any) error {
	short, err := m.converted(object)
	if err == nil {
		m.index.put(short)
	}
	return err
}

// Update implements cache.ReflectorStore.
func (m *reflectorStore[T]) Update(object any) error { return m.Add(object) }

// Delete implements cache.ReflectorStore.
func (m *reflectorStore[T]) Delete(object any) error {
	o, err := meta.Accessor(object)
	if err == nil {
		m.index.drop(o.GetNamespace(), o.GetName())
	}
	return err
}

// Replace implements cache.ReflectorStore. It skips objects that cannot be converted.
func (m *reflectorStore[T]) Replace(objects []any, _ string) error {
	all := make([]T, 0, len(objects))
	for i, object := range objects {
		if short, err := m.converted(object); err == nil {
			all = append(all, short)
		}
		objects[i] = nil
	}
	m.index.replace(all)
	m.listed.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
func (m *reflectorStore[T]) Resync() error { return nil }

// backoff is the wait between two attempts to list or watch: client-go's for a Reflector, with a
// shorter first step. It starts anew after two quiet minutes, and when the API server has
// recovered.
var backoff = wait.Backoff{Duration: 250 * time.Millisecond, Cap: 30 * time.Second, Factor: 2, Jitter: 0.5,
	Steps: 100}

const backoffResetAfter = 2 * time.Minute

// backoffClock is the clock of a Reflector. Its waits are as long as backoff says, whatever the
// Reflector asks for. They also end with the context, which a Reflector ignores in places, and when
// the API server has recovered.
type backoffClock struct {
	clock.RealClock
	ctx     context.Context
	probe   *healthProbe
	initial wait.Backoff

	mu         sync.Mutex
	backoff    wait.Backoff
	last       time.Time
	recoveries uint64
}

func newBackoffClock(ctx context.Context, initial wait.Backoff, p *healthProbe) *backoffClock {
	return &backoffClock{ctx: ctx, probe: p, initial: initial, backoff: initial}
}

// After implements clock.Clock.
func (p *backoffClock) After(time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	length, back := p.next()
	go func() {
		sleep(p.ctx, length, back)
		fired <- time.Now()
	}()
	return fired
}

// next returns how long to wait, and the channel that ends the wait early.
func (p *backoffClock) next() (length time.Duration, back <-chan struct{}) {
	returns, back := p.probe.recovery()
	p.mu.Lock()
	defer p.mu.Unlock()
	if returns != p.recoveries || time.Since(p.last) > backoffResetAfter {
		p.backoff, p.recoveries = p.initial, returns
	}
	p.last = time.Now()
	return p.backoff.Step(), back
}
