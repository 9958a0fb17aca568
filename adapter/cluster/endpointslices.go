package cluster

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	serviceResource       = "services"
	endpointSliceResource = "endpointslices.discovery.k8s.io"
)

// endpointSlice is the part of an EndpointSlice that is kept: the pods behind a Service, whether
// they are ready or not. Readers leave out pods that have ended.
type endpointSlice struct {
	namespace, name, service string
	pods                     []uidKey // without duplicates
}

func newEndpointSlice(from any) (*endpointSlice, bool) {
	e, ok := from.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, false
	}
	short := &endpointSlice{
		namespace: strings.Clone(e.Namespace), name: strings.Clone(e.Name),
		service: strings.Clone(e.Labels[discoveryv1.LabelServiceName]),
	}
	for i := range e.Endpoints {
		to := e.Endpoints[i].TargetRef
		// A slice is no right to read pods of another namespace.
		if to == nil || to.Kind != "Pod" || to.UID == "" || to.Namespace != "" && to.Namespace != e.Namespace {
			continue
		}
		if uid := newUIDKey(string(to.UID)); !slices.Contains(short.pods, uid) {
			short.pods = append(short.pods, uid)
		}
	}
	short.pods = slices.Clip(short.pods)
	return short, true
}

// endpointSlices indexes EndpointSlices by Service. One goroutine writes.
type endpointSlices struct {
	mu     sync.RWMutex
	slices map[objectName]*endpointSlice
	// services holds the slices of each Service, by namespace and name.
	services map[string]map[string][]*endpointSlice
}

func newEndpointSlices() *endpointSlices {
	return &endpointSlices{slices: map[objectName]*endpointSlice{}, services: map[string]map[string][]*endpointSlice{}}
}

func (e *endpointSlices) put(now *endpointSlice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.replaceLocked(objectName{now.namespace, now.name}, now)
}

func (e *endpointSlices) drop(namespace, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.replaceLocked(objectName{namespace, name}, nil)
}

func (e *endpointSlices) replace(all []*endpointSlice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.slices)
	clear(e.services)
	for _, one := range all {
		e.replaceLocked(objectName{one.namespace, one.name}, one)
	}
}

// replaceLocked replaces a slice by another; nil: removes it.
func (e *endpointSlices) replaceLocked(key objectName, now *endpointSlice) {
	if was := e.slices[key]; was != nil {
		delete(e.slices, key)
		services := e.services[was.namespace]
		rest := slices.DeleteFunc(services[was.service], func(one *endpointSlice) bool { return one == was })
		if services[was.service] = rest; len(rest) == 0 {
			delete(services, was.service)
		}
		if len(services) == 0 {
			delete(e.services, was.namespace)
		}
	}
	if now == nil || now.service == "" {
		return
	}
	e.slices[key] = now
	services := e.services[now.namespace]
	if services == nil {
		services = map[string][]*endpointSlice{}
		e.services[now.namespace] = services
	}
	services[now.service] = append(services[now.service], now)
}

// of returns the slices of Services, by name: of one, or of all of a namespace. Nobody may change them.
func (e *endpointSlices) of(namespace, name string) map[string][]*endpointSlice {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if name != allNames {
		return map[string][]*endpointSlice{name: slices.Clone(e.services[namespace][name])}
	}
	found := map[string][]*endpointSlice{}
	for service, all := range e.services[namespace] {
		found[service] = slices.Clone(all)
	}
	return found
}

// endpointWatch watches EndpointSlices, from the first question about a Service's pods on: in a
// large cluster they change with every pod, and most clusters never ask.
type endpointWatch struct {
	*requiredWatch
	held   *endpointSlices
	once   sync.Once
	wanted chan struct{} // closed by the first question
}

func newEndpointWatch(client *Client, logger *slog.Logger) *endpointWatch {
	held := newEndpointSlices()
	return &endpointWatch{held: held, wanted: make(chan struct{}), requiredWatch: newRequiredWatch(
		client.kubernetes.DiscoveryV1().EndpointSlices(metav1.NamespaceAll), &discoveryv1.EndpointSlice{},
		&reflectorStore[*endpointSlice]{index: held, convert: newEndpointSlice},
		&requestHealth{resource: endpointSliceResource, remedy: remedyFor(schema.ParseGroupResource(endpointSliceResource)),
			logger: logger})}
}

// want begins the watch.
func (w *endpointWatch) want() { w.once.Do(func() { close(w.wanted) }) }

// isWanted reports whether the watch has begun.
func (w *endpointWatch) isWanted() bool {
	select {
	case <-w.wanted:
		return true
	default:
		return false
	}
}

// run watches until the context ends.
func (w *endpointWatch) run(ctx context.Context) {
	select {
	case <-w.wanted:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		w.requiredWatch.run(ctx)
		sleep(ctx, missingKindRetry, nil)
	}
}

// servicePods returns the pods of Services: of one, or of all of a namespace.
func (v *View) servicePods(namespace, name string) ([]ownedPods, error) {
	if _, exists, watched := v.Object(serviceResource, namespace, name); name != allNames && watched && !exists {
		return nil, nil
	}
	if v.endpoints.want(); !v.endpoints.listed() {
		if err := v.endpoints.health.lastError(); err != nil {
			return nil, metric.NotReadyf("the pods of Services are not known: EndpointSlices cannot be read: %v; needed is %s",
				err, v.endpoints.health.remedy)
		}
		return nil, metric.NotReadyf("the pods of Services are not known yet: EndpointSlices are read from the first question on")
	}
	var found []ownedPods
	for service, all := range v.endpoints.held.of(namespace, name) {
		if pods := v.pods.behind(namespace, all); len(pods) > 0 {
			found = append(found, ownedPods{name: service, pods: pods})
		}
	}
	return found, nil
}

// behind returns the live pods of EndpointSlices in a namespace, each once: of a Service with two address families, two
// slices have each pod. Whoever writes a slice chooses its UIDs, so those of no pod take nothing, and writers wait for one
// slice at most.
func (p *pods) behind(namespace string, slices []*endpointSlice) (all []*pod) {
	seen := map[uidKey]struct{}{}
	for _, s := range slices {
		p.mu.RLock()
		for _, uid := range s.pods {
			one := p.uidIndex[uid]
			if one == nil || one.Namespace != namespace {
				continue
			}
			if _, twice := seen[uid]; !twice {
				seen[uid] = struct{}{}
				all = append(all, one)
			}
		}
		p.mu.RUnlock()
	}
	return all
}
