package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

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
