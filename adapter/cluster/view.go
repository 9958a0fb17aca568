package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// View is what is known of the cluster. Its answers come from memory; any goroutine may ask.
type View struct {
	observer        *Observer
	resources       *resources
	pods            *pods
	limits          *limitRanges
	autoscalers     *autoscalers
	kinds           []*kindWatch
	replicaSets     *replicaSets
	replicaSetWatch *kindWatch // watches ReplicaSets for owners
	events          *events
	discoverer      *discoverer
	probe           *healthProbe

	// needed are the resources without which nothing can be answered, in the order in which they are told: pods first.
	required []*requiredWatch
}

// needed is a resource that is watched always.
type requiredWatch struct {
	*resourceWatch
	listed func() bool
}

// NewView makes the view of a cluster. It knows nothing before it runs.
func NewView(client *Client, cfg Config, logger *slog.Logger) (*View, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	observer, resources := &Observer{}, newResources()
	v := &View{
		observer:    observer,
		resources:   resources,
		pods:        newPods(observer),
		autoscalers: newAutoscalers(observer),
		replicaSets: newReplicaSets(),
		events:      newEvents(client.kubernetes, resources, logger),
		discoverer: &discoverer{
			rest: client.rest, resources: resources, observer: observer,
			health:      &requestHealth{resource: "API resources", remedy: "what the ClusterRole system:discovery gives", logger: logger},
			minInterval: discoveryMinInterval, retryAfter: discoveryRetry,
		},
	}
	v.probe = newHealthProbe(client, logger)
	v.limits = newLimitRanges(observer, v.events, logger)
	v.watchRequired(client, logger)
	for _, name := range cfg.ObjectKinds {
		held := newObjects(name, observer)
		mirror := &reflectorStore[*object]{index: held, convert: newObject}
		one := newKindWatch(name, v, client, logger)
		one.objects, one.store, one.listed = held, mirror, mirror.listed.Load
		v.kinds = append(v.kinds, one)
	}
	mirror := newReplicaSetStore(v.replicaSets)
	v.replicaSetWatch = newKindWatch(replicaSetResource, v, client, logger)
	v.replicaSetWatch.store, v.replicaSetWatch.listed = mirror, mirror.listed.Load
	for _, one := range v.allHealth() {
		one.probe = v.probe
	}
	return v, nil
}

func newKindWatch(name string, v *View, client *Client, logger *slog.Logger) *kindWatch {
	return &kindWatch{
		resource:  name,
		resources: v.resources,
		client:    client.metadata,
		health:    &requestHealth{resource: name, remedy: remedyFor(schema.ParseGroupResource(name)), logger: logger},
		backoff:   backoff,
		logger:    logger,
	}
}

// lister is what each of client-go's typed clients has.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func newRequiredWatch[L runtime.Object, T any](from lister[L], of runtime.Object, held *reflectorStore[T], a *requestHealth) *requiredWatch {
	return &requiredWatch{listed: held.listed.Load, resourceWatch: &resourceWatch{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return from.List(ctx, o) },
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, o)
		},
		expected: of, store: held, health: a, backoff: backoff,
	}}
}

func (v *View) watchRequired(client *Client, logger *slog.Logger) {
	about := func(group, resource string) *requestHealth {
		one := schema.GroupResource{Group: group, Resource: resource}
		return &requestHealth{resource: one.String(), remedy: remedyFor(one), logger: logger}
	}
	core, scaling := client.kubernetes.CoreV1(), client.kubernetes.AutoscalingV2()
	const everywhere = metav1.NamespaceAll
	v.required = []*requiredWatch{
		newRequiredWatch(core.Pods(everywhere), &corev1.Pod{},
			&reflectorStore[*pod]{index: v.pods, convert: convertPod}, about("", podResource)),
		newRequiredWatch(core.LimitRanges(everywhere), &corev1.LimitRange{},
			&reflectorStore[*limitRange]{index: v.limits, convert: newLimitRange}, about("", limitRangeResource)),
		newRequiredWatch(scaling.HorizontalPodAutoscalers(everywhere), &autoscalingv2.HorizontalPodAutoscaler{},
			&reflectorStore[*autoscaler]{index: v.autoscalers, convert: newAutoscaler}, about("autoscaling", "horizontalpodautoscalers")),
	}
}

func convertPod(from any) (*pod, bool) {
	of, ok := from.(*corev1.Pod)
	if !ok {
		return nil, false
	}
	return newPod(of), true
}

// Observe sets who is told of changes. Call it before Run.
func (v *View) Observe(o Observer) { *v.observer = o }

// Run keeps the view as the API server has it, until the context ends. It is called once.
func (v *View) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, one := range v.required {
		running.Go(func() {
			for ctx.Err() == nil {
				one.run(ctx) // a server that does not have it is unlike any Kubernetes: it is asked again
			}
		})
	}
	for _, one := range v.watchedKinds() {
		running.Go(func() { one.run(ctx) })
	}
	running.Go(func() { v.events.run(ctx) })
	running.Go(func() { v.probe.run(ctx) })
	err := v.discoverer.run(ctx)
	cancel()
	running.Wait()
	return err
}

// Synced reports whether everything was read once: what holds from then on whatever happens. The text says what is
// waited for, and of which resources the API server gives no answer; empty: all is well.
func (v *View) Synced() (bool, string) {
	var waits, details []string
	if !v.resources.known() {
		waits = append(waits, v.discoverer.health.resource)
	}
	for _, one := range v.required {
		if !one.listed() {
			waits = append(waits, one.health.resource)
		}
	}
	for _, one := range v.watchedKinds() {
		switch {
		case one.pending():
			waits = append(waits, one.resource)
		case !one.reliable():
			details = append(details, one.resource+" is not watched")
		}
	}
	details = append(details, outageTexts(v.allHealth())...)
	if len(waits) > 0 {
		details = slices.Insert(details, 0, "waiting for "+strings.Join(waits, ", "))
	}
	return len(waits) == 0, strings.Join(details, "; ")
}

// Blind says since when, and why, nothing can be known of new pods: the API server does not answer. Not blind: it does.
func (v *View) Outage() (since time.Time, why string, blind bool) {
	s, blind := v.required[0].health.outage()
	return s.since, s.cause, blind
}

// watchedKinds are those that are watched by their metadata.
func (v *View) watchedKinds() []*kindWatch { return append(slices.Clone(v.kinds), v.replicaSetWatch) }

// Sender returns who has an address; nil: the cluster has not told. It takes no lock and allocates nothing.
func (v *View) Sender(address netip.Addr) *metric.Sender {
	return v.pods.addresses.load(address.Unmap())
}

// Expect makes Sender quick for addresses that are asked for next.
func (v *View) Expect(addresses []netip.Addr) { v.pods.addresses.prefetch(addresses) }

// Limits is what the namespace's LimitRanges say: of each number the lowest, metric.Unsaid where none says one.
func (v *View) Limits(namespace string) metric.Limits { return v.limits.limits(namespace) }

// Asked reports whether an autoscaler of the namespace names the metric, by its bare name, for objects of the resource;
// no resource: as an external metric. An autoscaler names a kind and not a resource, and which resource that is may not
// be known: so of an Object metric only this is told apart, that it is a pod's or another object's.
func (v *View) NamedByAutoscaler(namespace, resource, name string) bool {
	if resource != "" && resource != podResource {
		resource = onObjects
	}
	return v.autoscalers.names(namespace, namedMetric{resource, name})
}

// Event tells people something about an object, as a Warning. It never blocks.
func (v *View) Event(on metric.Object, reason, message string) {
	if on.UID == "" {
		on.UID, _, _ = v.Object(on.Resource, on.Namespace, on.Name) // by which "kubectl describe" finds it
	}
	v.events.add(on, reason, message)
}
