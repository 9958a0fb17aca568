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

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// View is the cluster view. It answers from memory; any goroutine may call its methods.
type View struct {
	observer        *Observer
	resources       *resources
	pods            *pods
	limits          *limitRanges
	autoscalers     *autoscalers
	kinds           []*kindWatch
	replicaSets     *replicaSets
	replicaSetWatch *kindWatch // finds the owners of ReplicaSets
	endpoints       *endpointWatch
	replicaPods     *replicaPods // nil: there are no other replicas
	custom          []*CustomObjects
	installedKinds  *installedKinds
	dynamic         dynamic.Interface
	logger          *slog.Logger
	events          *events
	discoverer      *discoverer
	probe           *healthProbe

	// required are the resources that every answer needs: pods first, then the others in the order
	// of messages.
	required []*requiredWatch
}

// requiredWatch watches a resource of required.
type requiredWatch struct {
	*resourceWatch
	listed func() bool
}

// NewView makes an empty view. Run fills it.
func NewView(client *Client, cfg Config, logger *slog.Logger) (*View, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	observer, resources := &Observer{}, newResources()
	v := &View{
		observer:       observer,
		resources:      resources,
		pods:           newPods(observer),
		autoscalers:    newAutoscalers(observer),
		replicaSets:    newReplicaSets(),
		dynamic:        client.dynamic,
		installedKinds: newInstalledKinds(client.kubernetes.Discovery().RESTClient()),
		logger:         logger,
		events:         newEvents(client.kubernetes, resources, logger),
		discoverer: &discoverer{
			rest: client.rest, resources: resources, observer: observer,
			health: &requestHealth{resource: "API resources",
				remedy: "what the ClusterRole system:discovery gives", logger: logger},
			minInterval: discoveryMinInterval, retryAfter: discoveryRetry,
		},
	}
	v.events.namespace = func(name string) string {
		uid, _, _ := v.Namespace(name)
		return uid
	}
	if cfg.Replica != "" {
		v.events.lease = newLease(client, cfg, logger)
		v.replicaPods = newReplicaPods(client, logger)
	}
	v.probe = newHealthProbe(client, logger)
	v.limits = newLimitRanges(observer, v.events, logger)
	v.watchRequired(client, cfg.Announcements, logger)
	for _, name := range cfg.ObjectKinds {
		held := newObjects(name, observer)
		held.room = v.pods.labelRoom.ofKind()
		mirror := &reflectorStore[*object]{index: held, convert: held.convert}
		k := newKindWatch(name, v, client, logger)
		k.objects, k.store, k.listed = held, mirror, mirror.listed.Load
		v.kinds = append(v.kinds, k)
	}
	mirror := newReplicaSetStore(v.replicaSets)
	v.replicaSetWatch = newKindWatch(replicaSetResource, v, client, logger)
	v.replicaSetWatch.store, v.replicaSetWatch.listed = mirror, mirror.listed.Load
	v.endpoints = newEndpointWatch(client, logger)
	v.endpoints.health.probe = v.probe
	for _, r := range v.allHealth() {
		r.probe = v.probe
	}
	return v, nil
}

func newKindWatch(name string, v *View, client *Client, logger *slog.Logger) *kindWatch {
	return &kindWatch{
		resource:  name,
		resources: v.resources,
		client:    client.metadata,
		health: &requestHealth{resource: name, remedy: remedyFor(schema.ParseGroupResource(name)),
			logger: logger},
		backoff: backoff,
		logger:  logger,
	}
}

// lister is the common part of client-go's typed clients.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func newRequiredWatch[L runtime.Object, T any](from lister[L], object runtime.Object, held *reflectorStore[T],
	a *requestHealth) *requiredWatch {
	return &requiredWatch{listed: held.listed.Load, resourceWatch: &resourceWatch{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return from.List(ctx, o) },
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, o)
		},
		expected: object, store: held, health: a, backoff: backoff,
	}}
}

func (v *View) watchRequired(client *Client, announced bool, logger *slog.Logger) {
	about := func(group, resource string) *requestHealth {
		groupResource := schema.GroupResource{Group: group, Resource: resource}
		return &requestHealth{resource: groupResource.String(), remedy: remedyFor(groupResource), logger: logger}
	}
	core, scaling := client.kubernetes.CoreV1(), client.kubernetes.AutoscalingV2()
	const everywhere = metav1.NamespaceAll
	v.required = []*requiredWatch{
		newRequiredWatch(core.Pods(everywhere), &corev1.Pod{},
			&reflectorStore[*pod]{index: v.pods, convert: v.pods.convert(announced)}, about("", podResource)),
		newRequiredWatch(core.LimitRanges(everywhere), &corev1.LimitRange{},
			&reflectorStore[*limitRange]{index: v.limits, convert: newLimitRange}, about("",
				limitRangeResource)),
		newRequiredWatch(scaling.HorizontalPodAutoscalers(everywhere),
			&autoscalingv2.HorizontalPodAutoscaler{},
			&reflectorStore[*autoscaler]{index: v.autoscalers, convert: v.autoscalers.convert}, about("autoscaling",
				"horizontalpodautoscalers")),
	}
}

// convert makes the conversion of pods, with or without what they announce.
func (p *pods) convert(announced bool) func(any) (*pod, bool) {
	return func(from any) (*pod, bool) {
		whole, ok := from.(*corev1.Pod)
		if !ok {
			return nil, false
		}
		short := newPod(whole)
		if short.finished {
			short.labels = labelSet{} // it will not be indexed
		}
		short.labels = p.labelTexts.keptLabels(objectName{short.Namespace, short.Name}, short.labels)
		if announced {
			short.announcement = p.announcementRoom.keptAnnouncement(short, announcementOf(whole))
		}
		return short, true
	}
}

// Observe sets the observer. It must be called before Run.
func (v *View) Observe(o Observer) { *v.observer = o }

// Run keeps the view up to date until the context ends. It is called once.
func (v *View) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, r := range v.required {
		running.Go(func() {
			for ctx.Err() == nil {
				r.run(ctx) // every Kubernetes has these resources, so a missing one is asked for again
			}
		})
	}
	for _, watchedKind := range v.watchedKinds() {
		running.Go(func() { watchedKind.run(ctx) })
	}
	running.Go(func() { v.endpoints.run(ctx) })
	for _, customObjects := range v.custom {
		running.Go(func() { customObjects.run(ctx) })
	}
	running.Go(func() { v.events.run(ctx) })
	if v.events.lease != nil {
		running.Go(func() { v.events.lease.run(ctx) })
		running.Go(func() { v.replicaPods.run(ctx) })
	}
	running.Go(func() { v.probe.run(ctx) })
	err := v.discoverer.run(ctx)
	cancel()
	running.Wait()
	return err
}

// Synced reports whether everything was read once; it then stays true. The text names the resources
// that are waited for, and those that the API server does not answer about; empty: none.
func (v *View) Synced() (bool, string) {
	var waits, details []string
	if !v.resources.known() {
		waits = append(waits, v.discoverer.health.resource)
	}
	for _, r := range v.required {
		if !r.listed() {
			waits = append(waits, r.health.resource)
		}
	}
	for _, watchedKind := range v.watchedKinds() {
		switch {
		case watchedKind.pending():
			waits = append(waits, watchedKind.resource)
		case !watchedKind.reliable():
			details = append(details, watchedKind.resource+" is not watched")
		}
	}
	for _, customObjects := range v.custom {
		if !customObjects.Known() {
			waits = append(waits, customObjects.watch.health.resource)
		}
	}
	details = append(details, outageTexts(v.allHealth())...)
	if len(waits) > 0 {
		details = slices.Insert(details, 0, "waiting for "+strings.Join(waits, ", "))
	}
	return len(waits) == 0, strings.Join(details, "; ")
}

// Outage returns the start and the cause of an outage in which new pods stay unknown, if there is
// one.
func (v *View) Outage() (since time.Time, why string, blind bool) {
	s, blind := v.required[0].health.outage()
	return s.since, s.cause, blind
}

// watchedKinds are the watches by metadata.
func (v *View) watchedKinds() []*kindWatch { return append(slices.Clone(v.kinds), v.replicaSetWatch) }

// Limits returns the lowest limits that the namespace's LimitRanges set; metric.Unset: none.
func (v *View) Limits(namespace string) metric.Limits { return v.limits.limits(namespace) }

// LimitSources returns the names of the LimitRanges that set the limit of the namespace's pods, or
// of the namespace.
func (v *View) LimitSources(namespace string, ofPods bool) []string {
	return v.limits.sources(namespace, ofPods)
}

// NamedByAutoscaler reports whether an autoscaler of the namespace names the metric, by its bare
// name, for objects of the resource; empty resource: as an external metric. An autoscaler names a
// kind, whose resource may be unknown. So Object metrics are only divided into those of pods and of
// other objects.
func (v *View) NamedByAutoscaler(namespace, resource, name string) bool {
	if resource != "" && resource != podResource {
		resource = onObjects
	}
	return v.autoscalers.names(namespace, namedMetric{resource, name})
}

// Observer receives changes of the view, after the view shows them. The goroutines that watch call
// its functions without a lock, so they must be quick. A nil function is not called.
type Observer struct {
	// SendersChanged: these addresses have another Sender, a pod or nobody. Empty: a pod became
	// known by name, UID or container, without a new address.
	SendersChanged func([]netip.Addr)
	// ObjectGone: a pod was deleted or has finished, or an object of a watched kind was deleted.
	// The object has its UID.
	ObjectGone func(metric.Object)
	// ObjectAdded: a new object of a watched kind exists. It has its UID.
	ObjectAdded func(metric.Object)
	// LimitsChanged: the limits of the namespace changed.
	LimitsChanged func(namespace string)
	// AutoscalersChanged: the autoscalers of the namespace name other metrics.
	AutoscalersChanged func(namespace string)
	// WakeChanged: an autoscaler with the annotation sluice.dev/wake appeared or changed; now nil:
	// it was deleted, or has the annotation no longer.
	WakeChanged func(namespace, name string, now *inspect.Autoscaler)
	// InstantChanged: an autoscaler with the annotation sluice.dev/instant, or with what nudges leave,
	// appeared or changed; now nil: it was deleted, or has neither any longer.
	InstantChanged func(namespace, name string, now *inspect.Autoscaler)
	// ResourcesChanged: the answers of Canonical and FindResource may have changed.
	ResourcesChanged func()
}

func (o *Observer) sendersChanged(addresses []netip.Addr) {
	if o.SendersChanged != nil {
		o.SendersChanged(addresses)
	}
}

func (o *Observer) objectGone(gone metric.Object) {
	if o.ObjectGone != nil {
		o.ObjectGone(gone)
	}
}

func (o *Observer) objectAdded(added metric.Object) {
	if o.ObjectAdded != nil {
		o.ObjectAdded(added)
	}
}

func (o *Observer) limitsChanged(namespace string) {
	if o.LimitsChanged != nil {
		o.LimitsChanged(namespace)
	}
}

func (o *Observer) autoscalersChanged(namespace string) {
	if o.AutoscalersChanged != nil {
		o.AutoscalersChanged(namespace)
	}
}

// autoscalerChanged is told of the documents of an autoscaler before and after; nil: there is none.
func (o *Observer) autoscalerChanged(namespace, name string, before, after *inspect.Autoscaler) {
	of := func(call func(namespace, name string, now *inspect.Autoscaler), concerns func(*inspect.Autoscaler) bool) {
		switch {
		case call == nil:
		case after != nil && concerns(after):
			call(namespace, name, after)
		case before != nil && concerns(before):
			call(namespace, name, nil)
		}
	}
	of(o.WakeChanged, func(a *inspect.Autoscaler) bool { return a.Wake != nil })
	of(o.InstantChanged, func(a *inspect.Autoscaler) bool { return a.Instant != nil || a.Mark != inspect.Unmarked })
}

func (o *Observer) resourcesChanged() {
	if o.ResourcesChanged != nil {
		o.ResourcesChanged()
	}
}
