package identity

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Bounds of the Events about rejected samples. A workload of a thousand pods with one mistake makes
// some Events, and not a thousand.
const (
	maxRejectedNames = 8    // of a pod
	maxRejectedPods  = 4096 // remembered
	maxRejections    = 16   // Events of a namespace in a rejectionWindow
	rejectionWindow  = 10 * time.Minute
)

// EventRecorder writes Events for people to read.
type EventRecorder interface {
	// Event writes an Event about a metric of an object. It never blocks.
	Event(o metric.Object, reason, name, message string)
}

// Rejections describes samples as its Resolver does, and tells the owner of a pod of samples that are
// rejected: as an Event on the pod that sent them, once per metric. Any goroutine may use it.
type Rejections struct {
	resolver *Resolver
	events   EventRecorder

	mu      sync.Mutex
	told    map[string][]string // names of metrics by the pod's UID
	window  time.Time           // begin of the current rejectionWindow
	written map[string]int      // Events in it, by namespace
}

// NewRejections makes a Rejections of a Resolver in a cluster.
func NewRejections(r *Resolver, events EventRecorder) *Rejections {
	return &Rejections{resolver: r, events: events, told: map[string][]string{}, written: map[string]int{}}
}

// Describe is Resolver.Describe. Lines that were seen before don't come here.
func (f *Rejections) Describe(s *metric.Sample, d *metric.Description) metric.Reason {
	var v decision
	f.resolver.decide(s, d, &v)
	// A sample that predates its sender's pod is of another pod, and one that predates its object is nobody's fault.
	if v.reason == metric.Identity && v.sender.pod != nil && v.rule != predatesPod && v.rule != predatesObject &&
		f.first(v.sender.pod, s.Name) {
		name := metric.Truncate(metric.Mask(string(s.Name)), metric.MaxQuoted)
		f.events.Event(v.sender.pod.Object(), "MetricRefused", name,
			fmt.Sprintf("metric %q is rejected: %s", name, metric.Mask(f.resolver.explain(&v))))
	}
	return v.reason
}

// first reports whether an Event about a metric of a pod is due, and counts it.
func (f *Rejections) first(pod *metric.Pod, name []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	names, known := f.told[pod.UID]
	if len(names) >= maxRejectedNames || slices.Contains(names, metric.Borrow(name)) || !known &&
		len(f.told) >= maxRejectedPods {
		return false
	}
	if now := time.Now(); now.Sub(f.window) >= rejectionWindow {
		f.window = now
		clear(f.written)
	}
	if f.written[pod.Namespace] >= maxRejections {
		return false // its next decision may be told
	}
	f.written[pod.Namespace]++
	f.told[pod.UID] = append(names, string(name))
	return true
}

// ObjectGone forgets a deleted pod.
func (f *Rejections) ObjectGone(o metric.Object) {
	f.mu.Lock()
	delete(f.told, o.UID)
	f.mu.Unlock()
}
