package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
)

// What bounds Events: how many wait, how long one may take, and how often one is tried. More than 25 about one object
// are merged and slowed down to one in five minutes by client-go's correlator.
const (
	eventQueueSize = 256
	// eventsOfNamespace is how many of them may be of one namespace: its pods cannot crowd out the others'.
	eventsPerNamespace = 32
	eventTimeout       = 10 * time.Second
	eventTries         = 3
)

// events writes core/v1 Events, which need no right but to create and patch "events". It never blocks who has
// something to tell: beyond what may wait, Events are dropped and counted. (The recorder of client-go drops as well but
// does not say how many, and tries each for minutes.)
type events struct {
	client    kubernetes.Interface
	resources *resources
	logger    *slog.Logger
	queue     chan *corev1.Event
	pause     time.Duration // between tries

	mu      sync.Mutex
	waiting map[string]int // Events in the queue, by namespace

	sent, suppressed, dropped atomic.Uint64
}

func newEvents(client kubernetes.Interface, resources *resources, logger *slog.Logger) *events {
	return &events{
		client: client, resources: resources, logger: logger,
		waiting: map[string]int{}, queue: make(chan *corev1.Event, eventQueueSize), pause: 2 * time.Second,
	}
}

// add tells something about an object.
func (e *events) add(on metric.Object, reason, message string) {
	reference, ok := e.reference(on)
	if !ok {
		e.dropped.Add(1)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting[on.Namespace] >= eventsPerNamespace || len(e.queue) == cap(e.queue) {
		e.dropped.Add(1)
		return
	}
	e.waiting[on.Namespace]++
	e.queue <- newEvent(reference, reason, message) // only add fills it
}

// took counts one that left the queue.
func (e *events) dequeued(one *corev1.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	namespace := one.InvolvedObject.Namespace
	if e.waiting[namespace]--; e.waiting[namespace] == 0 {
		delete(e.waiting, namespace)
	}
}

// reference names the object as an Event does. Kinds that are watched always need no discovery.
func (e *events) reference(on metric.Object) (corev1.ObjectReference, bool) {
	reference := corev1.ObjectReference{APIVersion: "v1", Namespace: on.Namespace, Name: on.Name, UID: types.UID(on.UID)}
	switch on.Resource {
	case podResource:
		reference.Kind = "Pod"
	case limitRangeResource:
		reference.Kind = "LimitRange"
	default:
		one, err := e.resources.find(on.Resource)
		if err != nil {
			return reference, false
		}
		reference.APIVersion, reference.Kind = one.kind.ToAPIVersionAndKind()
	}
	return reference, true
}

func newEvent(on corev1.ObjectReference, reason, message string) *corev1.Event {
	now := metav1.Now()
	namespace := on.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events on what is in no namespace belong
	}
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", on.Name, now.UnixNano()), Namespace: namespace},
		InvolvedObject:      on,
		Reason:              reason,
		Message:             truncated(message),
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Type:                corev1.EventTypeWarning,
		Source:              corev1.EventSource{Component: "sluice"},
		ReportingController: "sluice",
	}
}

// short cuts a message to what an Event may hold.
func truncated(message string) string {
	const most = 1024
	if len(message) <= most {
		return message
	}
	return message[:most-3] + "..."
}

// run writes until the context ends.
func (e *events) run(ctx context.Context) {
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-e.queue:
			e.dequeued(one)
			e.write(ctx, correlator, one)
		}
	}
}

func (e *events) write(ctx context.Context, correlator *record.EventCorrelator, one *corev1.Event) {
	result, err := correlator.EventCorrelate(one)
	if err != nil || result.Skip {
		e.suppressed.Add(1)
		return
	}
	for range eventTries {
		var written *corev1.Event
		if written, err = e.writeOnce(ctx, result); err == nil {
			correlator.UpdateState(written)
			e.sent.Add(1)
			return
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			break // the API server answered, and will not answer otherwise
		}
		sleep(ctx, e.pause, nil)
	}
	e.dropped.Add(1)
	e.logger.Warn("Event not written", "reason", one.Reason, "message", one.Message, "on", one.InvolvedObject.Kind,
		"namespace", one.InvolvedObject.Namespace, "name", one.InvolvedObject.Name, "err", err)
}

// try creates the Event, or counts one more of it. One that was counted and has expired since is created again.
func (e *events) writeOnce(ctx context.Context, what *record.EventCorrelateResult) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	client := e.client.CoreV1().Events(what.Event.Namespace)
	if what.Event.Count > 1 {
		written, err := client.Patch(ctx, what.Event.Name, types.StrategicMergePatchType, what.Patch, metav1.PatchOptions{})
		if err == nil || !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	fresh := what.Event.DeepCopy()
	fresh.ResourceVersion = ""
	return client.Create(ctx, fresh, metav1.CreateOptions{})
}
