package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// resourceWatch keeps one store up to date with the API server. It sits between Reflector and
// client to see every request and its outcome: a Reflector alone retries a refused connection
// silently.
type resourceWatch struct {
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)
	expected runtime.Object
	store    cache.ReflectorStore
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

// ListWithContext implements cache.ListerWatcherWithContext.
func (w *resourceWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := w.list(ctx, options)
	w.record(ctx, err)
	return list, err
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
