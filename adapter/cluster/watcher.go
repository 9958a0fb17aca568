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

// watcher keeps one store as the API server has it. It stands between Reflector and client, where every request and
// its outcome are seen: a Reflector alone retries a refused connection silently.
type watcher struct {
	lists    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watches  func(context.Context, metav1.ListOptions) (watch.Interface, error)
	expected runtime.Object
	store    cache.ReflectorStore
	answers  *answers
	backoff  wait.Backoff
}

// run watches until the context ends, or the API server says that there is no such resource: it returns true then.
func (w *watcher) run(ctx context.Context) (missing bool) {
	pauses, within := newPauses(ctx, w.backoff, w.answers.pulse), w.backoff
	reflector := cache.NewReflectorWithOptions(w, w.expected, w.store, cache.ReflectorOptions{
		Name: w.answers.about, Clock: pauses, Backoff: &within,
	})
	for ctx.Err() == nil {
		// What fails was seen on its way: see answer.
		if apierrors.IsNotFound(reflector.ListAndWatchWithContext(ctx)) {
			return ctx.Err() == nil
		}
		<-pauses.After(0)
	}
	return false
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (w *watcher) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := w.lists(ctx, options)
	w.answer(ctx, err)
	return list, err
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (w *watcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := w.watches(ctx, options)
	if streamed := options.SendInitialEvents != nil; streamed && apierrors.IsInvalid(err) {
		return events, err // an API server that cannot stream a list; a list follows
	}
	w.answer(ctx, err)
	return events, err
}

// List implements cache.ListerWatcher.
func (w *watcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (w *watcher) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), options)
}

func (w *watcher) answer(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		w.answers.answered()
	default:
		w.answers.failed(err)
	}
}
