package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// Intervals of discovery: regularly, at least between two requests for an unknown resource, and
// after a failure.
const (
	discoveryInterval    = 5 * time.Minute
	discoveryMinInterval = 30 * time.Second
	discoveryRetry       = 5 * time.Second
	discoveryTimeout     = 10 * time.Second
)

// discoverer keeps resources up to date with the API server.
type discoverer struct {
	rest      *rest.Config
	resources *resources
	observer  *Observer
	health    *requestHealth
	// minInterval and retryAfter are constants outside of tests.
	minInterval, retryAfter time.Duration
}

// run discovers until the context ends.
func (e *discoverer) run(ctx context.Context) error {
	client, err := e.newClient(ctx)
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	for ctx.Err() == nil {
		pause, idle := e.minInterval, discoveryInterval-e.minInterval
		if err := e.discover(client); err != nil && ctx.Err() == nil {
			e.health.recordFailure(err)
			pause, idle = e.retryAfter, 0
		}
		sleep(ctx, pause, nil)
		sleep(ctx, idle, e.resources.refresh)
	}
	return nil
}

// sleep returns after d, when woken, or when the context ends.
func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
	}
}

// client makes a client whose requests end with ctx; client-go's discovery takes no context.
func (e *discoverer) newClient(ctx context.Context) (*discovery.DiscoveryClient, error) {
	bound := rest.CopyConfig(e.rest)
	bound.Timeout = discoveryTimeout
	bound.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundTo{ctx, next} })
	return discovery.NewDiscoveryClientForConfig(bound)
}

// boundTo ends requests with a second context.
type boundTo struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b boundTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(b.ctx, cancel)
	response, err := b.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	// The body is read after this returns, so the request stays bound until discoveryTimeout.
	context.AfterFunc(r.Context(), func() { stop(); cancel() })
	return response, nil
}

// discover asks the API server once. Groups whose server is unavailable keep their resources.
func (e *discoverer) discover(client discovery.DiscoveryInterface) error {
	groups, lists, err := client.ServerGroupsAndResources()
	away := sets.New[string]()
	var partly *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &partly):
		for version := range partly.Groups {
			away.Insert(version.Group)
		}
	case err != nil:
		return err
	}
	e.health.recordSuccess()
	var before []resource
	if names := e.resources.current.Load(); names != nil {
		before = names.all
	}
	if e.resources.set(resourcesOf(groups, lists, before, away)) {
		e.observer.resourcesChanged()
	}
	return nil
}

// installedKindsInterval is the interval at which discovery is asked for missing custom resources:
// a policy should count soon after its kind was installed.
const installedKindsInterval = 5 * time.Second

// installedKinds asks the API server which custom resources of Sluice are installed. Every account
// may ask, and the answer is small.
type installedKinds struct {
	discover func(context.Context) ([]string, error)

	mu     sync.Mutex // held during a request, so that resources that are missing together share it
	asked  time.Time
	answer []string // nil after a failure
}

func newInstalledKinds(client rest.Interface) *installedKinds {
	return &installedKinds{discover: func(ctx context.Context) ([]string, error) {
		found := metav1.APIResourceList{}
		err := client.Get().AbsPath("/apis/" + customVersion.String()).Do(ctx).Into(&found)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		names := make([]string, len(found.APIResources))
		for i := range found.APIResources {
			names[i] = found.APIResources[i].Name
		}
		return names, err
	}}
}

// await returns when a resource is installed, or after a while: discovery may be forbidden.
func (k *installedKinds) await(ctx context.Context, resource string, longest time.Duration) {
	for end := time.Now().Add(longest); ctx.Err() == nil && time.Now().Before(end); {
		sleep(ctx, installedKindsInterval, nil)
		if k.had(ctx, resource) {
			return
		}
	}
}

// had reports whether a resource was installed at the last request of discovery, which is recent.
func (k *installedKinds) had(ctx context.Context, resource string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.asked) >= installedKindsInterval/2 {
		ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
		defer cancel()
		answer, err := k.discover(ctx)
		if err != nil {
			answer = nil
		}
		k.asked, k.answer = time.Now(), answer
	}
	return slices.Contains(k.answer, resource)
}
