package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
)

// Bounds of Events: queue, time per Event and attempts. client-go's correlator merges more than 25
// Events about one object, and slows them down to one in five minutes.
const (
	eventQueueSize = 256
	// eventsPerNamespace bounds the queued Events of a namespace, so its pods cannot crowd out
	// other namespaces.
	eventsPerNamespace = 32
	eventTimeout       = 10 * time.Second
	eventTries         = 3
)

// queuedEvent is an Event to write. With several replicas, all of them see the cause of a common
// Event, and the holder of the Lease writes it. Any other Event has a cause that one replica alone
// may know, as a rejected push, so each replica writes what it knows. An Event that two of them
// know has one name, and the API server accepts it once.
type queuedEvent struct {
	*corev1.Event
	common bool
	share  string // the namespace in whose share of the queue it waits; empty: none
	within string // the UID of the object's namespace; empty: it is not known, or in none
}

// events writes core/v1 Events, which requires the rights to create and patch "events". It never
// blocks its caller: if the queue is full, Events are dropped and counted. (client-go's recorder
// drops Events too, but does not count them, and tries each for minutes.)
type events struct {
	client    kubernetes.Interface
	resources *resources
	logger    *slog.Logger
	queue     chan queuedEvent
	lease     *lease        // nil: this is the only replica
	pause     time.Duration // between attempts
	// namespace returns the UID of a namespace, as far as it is known.
	namespace func(name string) string

	mu      sync.Mutex
	waiting map[string]int // Events in the queue, by namespace

	sent, suppressed, dropped atomic.Uint64
}

func newEvents(client kubernetes.Interface, resources *resources, logger *slog.Logger) *events {
	return &events{
		client: client, resources: resources, logger: logger,
		waiting: map[string]int{}, queue: make(chan queuedEvent, eventQueueSize), pause: 2 * time.Second,
		namespace: func(string) string { return "" },
	}
}

// news is the content of an Event.
type news struct {
	reason, message string
	// about is the cause in short: Events of equal object, reason and cause are one.
	about  string
	normal bool // not a warning
	common bool // see queuedEvent
}

// add queues an Event about an object.
func (e *events) add(on metric.Object, what news) {
	reference, ok := e.reference(on)
	if !ok {
		e.dropped.Add(1)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	share := on.InNamespace()
	if e.waiting[share] >= eventsPerNamespace || len(e.queue) == cap(e.queue) {
		e.dropped.Add(1)
		return
	}
	e.waiting[share]++
	event := newEvent(reference, what)
	if e.lease != nil {
		event.Name = sharedEventName(reference, what.reason, what.about)
	}
	e.queue <- queuedEvent{event, what.common, share, e.namespace(on.Namespace)} // add is the only sender, so this never blocks
}

// dequeued counts an Event that left the queue.
func (e *events) dequeued(q queuedEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting[q.share]--; e.waiting[q.share] == 0 {
		delete(e.waiting, q.share)
	}
}

// reference returns the object reference of an Event. Pods, LimitRanges and autoscalers need no
// discovery.
func (e *events) reference(on metric.Object) (corev1.ObjectReference, bool) {
	reference := corev1.ObjectReference{APIVersion: "v1", Namespace: on.Namespace, Name: on.Name,
		UID: types.UID(on.UID)}
	switch on.Resource {
	case podResource:
		reference.Kind = "Pod"
	case limitRangeResource:
		reference.Kind = "LimitRange"
	case autoscalerResource:
		reference.APIVersion, reference.Kind = "autoscaling/v2", "HorizontalPodAutoscaler"
	default:
		r, err := e.resources.find(on.Resource)
		if err != nil {
			return reference, false
		}
		reference.APIVersion, reference.Kind = r.kind.ToAPIVersionAndKind()
	}
	return reference, true
}

func newEvent(on corev1.ObjectReference, what news) *corev1.Event {
	now, sort := metav1.Now(), corev1.EventTypeWarning
	if what.normal {
		sort = corev1.EventTypeNormal
	}
	namespace := on.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // for Events on objects outside of namespaces
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", on.Name, now.UnixNano()),
			Namespace: namespace},
		InvolvedObject:      on,
		Reason:              what.reason,
		Message:             inspect.ShortMessage(what.message),
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Type:                sort,
		Source:              corev1.EventSource{Component: "sluice"},
		ReportingController: "sluice",
	}
}

// sharedEventName is the name that all replicas give to an Event.
func sharedEventName(on corev1.ObjectReference, reason, about string) string {
	sum := fnv.New64a()
	for _, part := range []string{on.Kind, on.Namespace, string(on.UID), reason, about} {
		sum.Write([]byte(part)) //nolint:errcheck // a hash never fails
		sum.Write([]byte{0})    //nolint:errcheck // a hash never fails
	}
	return fmt.Sprintf("%s.%x", on.Name, sum.Sum64())
}

// run writes Events until the context ends.
func (e *events) run(ctx context.Context) {
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})
	var won <-chan struct{}
	if e.lease != nil {
		won = e.lease.won
	}
	var left []queuedEvent
	for {
		select {
		case <-ctx.Done():
			return
		case <-won:
			for _, q := range e.recent(left) {
				e.write(ctx, correlator, q)
			}
			left = nil
		case q := <-e.queue:
			e.dequeued(q)
			if q.common && e.lease != nil && !e.lease.holds.Load() {
				left = e.leave(left, q)
				continue
			}
			e.write(ctx, correlator, q)
		}
	}
}

// leave leaves a common Event to the holder of the Lease. This replica writes it if it becomes the
// holder soon: there may be no holder now, or one that is about to fail.
func (e *events) leave(left []queuedEvent, q queuedEvent) []queuedEvent {
	e.suppressed.Add(1)
	if left = e.recent(left); len(left) == eventQueueSize {
		left = slices.Delete(left, 0, 1)
	}
	return append(left, q)
}

// recent returns the Events that a former holder of the Lease may have failed to write.
func (e *events) recent(left []queuedEvent) []queuedEvent {
	old := time.Now().Add(-2 * e.lease.times.duration)
	return slices.DeleteFunc(left, func(q queuedEvent) bool { return q.FirstTimestamp.Time.Before(old) })
}

func (e *events) write(ctx context.Context, correlator *record.EventCorrelator, q queuedEvent) {
	result, err := correlator.EventCorrelate(q.Event)
	if err != nil || result.Skip {
		e.suppressed.Add(1)
		return
	}
	for try := range eventTries {
		var written *corev1.Event
		if try > 0 || time.Since(q.FirstTimestamp.Time) > eventFresh {
			err = e.stillThere(ctx, q)
		}
		if errors.Is(err, errAnother) {
			e.dropped.Add(1)
			return
		}
		if err == nil {
			written, err = e.writeOnce(ctx, result)
		}
		if err == nil {
			correlator.UpdateState(written)
			e.sent.Add(1)
			return
		}
		if e.lease != nil && apierrors.IsAlreadyExists(err) {
			e.suppressed.Add(1) // another replica wrote it, or this one before a restart
			return
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			break // the API server answered, and would answer the same again
		}
		sleep(ctx, e.pause, nil)
	}
	e.dropped.Add(1)
	e.logger.Warn("cannot write an Event", "reason", q.Reason, "message", q.Message,
		"on", q.InvolvedObject.Kind, "namespace", q.InvolvedObject.Namespace, "name", q.InvolvedObject.Name,
		"err", err)
}

// eventFresh is the age up to which an Event is written at once. One that had to wait may be of a namespace that has
// changed hands meanwhile: it is not for the next one's readers.
const eventFresh = time.Second

// stillThere asks the API server whether the namespace of an Event's object is still the one that it was. The error is
// errAnother if it is not.
func (e *events) stillThere(ctx context.Context, q queuedEvent) error {
	if q.within == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	found, err := e.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + q.InvolvedObject.Namespace})
	is := func(n corev1.Namespace) bool {
		return n.Name == q.InvolvedObject.Namespace && string(n.UID) == q.within
	}
	if err == nil && !slices.ContainsFunc(found.Items, is) {
		err = errAnother
	}
	return err
}

// writeOnce creates the Event, or increases its count. If it expired on the server, writeOnce
// creates it again.
func (e *events) writeOnce(ctx context.Context, what *record.EventCorrelateResult) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	client := e.client.CoreV1().Events(what.Event.Namespace)
	if what.Event.Count > 1 {
		written, err := client.Patch(ctx, what.Event.Name, types.StrategicMergePatchType, what.Patch,
			metav1.PatchOptions{})
		if err == nil || !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	fresh := what.Event.DeepCopy()
	fresh.Name, fresh.ResourceVersion = validEventName(fresh.Name), ""
	return client.Create(ctx, fresh, metav1.CreateOptions{})
}

// maxEventName is the longest name that the API server takes, in bytes. An object's own may be as long.
const maxEventName = 253

// validEventName cuts the name of the object in an Event's name, so the number behind it has room.
func validEventName(name string) string {
	if len(name) <= maxEventName {
		return name
	}
	number := name[strings.LastIndexByte(name, '.'):]
	return strings.TrimRight(name[:maxEventName-len(number)], "-.") + number
}

// Event writes a Warning about an object, for people to read. With several replicas, Events of equal
// object, reason and metric are written once. It never blocks.
func (v *View) Event(on metric.Object, reason, name, message string) {
	if on.UID == "" {
		on.UID, _, _ = v.Object(on.Resource, on.Namespace, on.Name) // "kubectl describe" finds Events by UID
	}
	v.events.add(on, news{reason: reason, about: name, message: message})
}

// WakeEvent writes an Event about an autoscaler whose cause this replica alone may know. about is the
// cause in short. It never blocks.
func (v *View) WakeEvent(on *inspect.Autoscaler, warning bool, reason, about, message string) {
	v.events.add(metric.Object{Resource: autoscalerResource, Namespace: on.Namespace, Name: on.Name, UID: on.UID},
		news{reason: reason, about: about, message: message, normal: !warning})
}

// AutoscalerEvent writes an Event about an autoscaler. about is its cause in short. With several
// replicas, all of which see the cause, one of them writes. It never blocks.
func (v *View) AutoscalerEvent(on *inspect.Autoscaler, warning bool, reason, about, message string) {
	v.events.add(metric.Object{Resource: autoscalerResource, Namespace: on.Namespace, Name: on.Name, UID: on.UID},
		news{reason: reason, about: about, message: message, normal: !warning, common: true})
}
