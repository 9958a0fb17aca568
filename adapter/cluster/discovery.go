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

// How often the API server is asked for its resources: unasked, when one is not known, and when it did not answer.
const (
	discoveryInterval    = 5 * time.Minute
	discoveryMinInterval = 30 * time.Second
	discoveryRetry       = 5 * time.Second
	discoveryTimeout     = 10 * time.Second
)

// explorer keeps resources as the API server has them.
type discoverer struct {
	rest      *rest.Config
	resources *resources
	observer  *Observer
	health    *requestHealth
	// atMost and retry are discoverAtMost and discoverRetry, but for tests.
	minInterval, retryAfter time.Duration
}

// run asks until the context ends.
func (e *discoverer) run(ctx context.Context) error {
	client, err := e.client(ctx)
	if err != nil {
		return fmt.Errorf("discovery client: %w", err)
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

// client makes one whose requests end with the context: those of client-go take none.
func (e *discoverer) client(ctx context.Context) (*discovery.DiscoveryClient, error) {
	bound := rest.CopyConfig(e.rest)
	bound.Timeout = discoveryTimeout
	bound.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundTo{ctx, next} })
	return discovery.NewDiscoveryClientForConfig(bound)
}

// boundTo ends requests with a context that is not theirs.
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
	// The body is read after this returns, so the request stays bound; discoverTimeout ends it at the latest.
	context.AfterFunc(r.Context(), func() { stop(); cancel() })
	return response, nil
}

// explore asks once. Groups whose server is away keep what they had.
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
