package route

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
)

// Config bounds what providers may use.
type Config struct {
	// MaxInFlight bounds the requests to all providers at once; each has an equal share.
	MaxInFlight int
	// ListLimit bounds the names that a provider's discovery adds.
	ListLimit int
	// Timeout bounds a request, from the connection to the last byte of the answer.
	Timeout time.Duration
	// Poll is the time between two looks at a provider's discovery.
	Poll time.Duration
}

// DefaultConfig leaves half of the API port to Sluice's own metrics.
func DefaultConfig(maxInFlight, listLimit int) Config {
	return Config{MaxInFlight: max(maxInFlight/2, 1), ListLimit: listLimit, Timeout: 10 * time.Second, Poll: 30 * time.Second}
}

// leastPlaces of a provider admit two readers beside one that takes its share.
const leastPlaces = 8

// Router finds the provider of a metric. Any goroutine may use it; the nil Router has no providers.
type Router struct {
	cfg       Config
	providers []*Provider
	metrics   *metrics
}

// New makes a router. account is the connection to the cluster's API server, whose credentials providers are shown;
// nothing is sent before Run or Ask.
func New(cfg Config, specs []Spec, account *rest.Config, log *slog.Logger) (*Router, error) {
	r, answers := &Router{cfg: cfg, metrics: newMetrics()}, newAnswersRoom()
	for _, s := range specs {
		p, err := newProvider(cfg, s, account, max(cfg.MaxInFlight/len(specs), leastPlaces), answers)
		if err != nil {
			return nil, err
		}
		p.metrics, p.log = r.metrics.of(s.Name), log.With("provider", s.Name)
		r.providers = append(r.providers, p)
	}
	return r, nil
}

// ScaledObjectLabel is the key of the selector with which KEDA's autoscalers ask for their metrics.
const ScaledObjectLabel = "scaledobject.keda.sh/name"

// maxName is the longest name of a metric that is forwarded, in bytes. Other providers may have longer ones than Sluice.
// Each author of an autoscaler may ask, and a name is matched with the patterns of providers and of policies.
const maxName = 1 << 10

// Find returns the provider of a metric by its name in a path, without escapes; nil: it is Sluice's own, as is each name of
// more than maxName bytes. The first of the file that matches has it.
func (r *Router) Find(namespace, name string, selector labels.Selector) *Provider {
	if r == nil || len(name) > maxName {
		return nil
	}
	for _, p := range r.providers {
		if p.has(namespace, name, selector) {
			return p
		}
	}
	return nil
}

func (p *Provider) has(namespace, name string, selector labels.Selector) bool {
	if p.namespaces != nil && !p.namespaces.MatchString(namespace) {
		return false
	}
	return p.spec.ScaledObjects && ofScaledObject(selector) || p.names != nil && p.names.MatchString(name)
}

// ofScaledObject reports whether a selector selects the metrics of a ScaledObject.
func ofScaledObject(selector labels.Selector) bool {
	if selector == nil {
		return false
	}
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		switch requirement.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if requirement.Key() == ScaledObjectLabel {
				return true
			}
		}
	}
	return false
}

// Listed returns the names that providers list in discovery, as they last answered.
func (r *Router) Listed() (names []string) {
	if r == nil {
		return nil
	}
	for _, p := range r.providers {
		if listed := p.listed.Load(); listed != nil {
			names = append(names, *listed...)
		}
	}
	return names
}

// Run looks at each provider at once and then at intervals, until ctx ends.
func (r *Router) Run(ctx context.Context) error {
	var polls sync.WaitGroup
	for _, p := range r.providers {
		polls.Go(func() {
			tick := time.NewTicker(r.cfg.Poll)
			defer tick.Stop()
			for {
				p.look(ctx)
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	polls.Wait()
	for _, p := range r.providers {
		p.transport.CloseIdleConnections()
	}
	return nil
}
