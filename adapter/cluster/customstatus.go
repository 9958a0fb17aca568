package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Pauses of the goroutine that writes statuses: between looks, and after a failure.
const (
	statusInterval = time.Second
	statusRetry    = 30 * time.Second
	statusTimeout  = 10 * time.Second
	maxStatusText  = 1024
)

// Condition is a condition of a custom object, as metav1.Condition.
type Condition struct {
	Type, Reason, Message string
	True                  bool
}

// CustomStatus is what the status of an object should say.
type CustomStatus struct {
	Conditions []Condition
	// Fields are more fields of the status, such as "lastValue". An empty one is removed.
	Fields map[string]string
}

func (s CustomStatus) equal(other CustomStatus) bool {
	return slices.Equal(s.Conditions, other.Conditions) && maps.Equal(s.Fields, other.Fields)
}

// customStatuses writes the statuses of one resource's objects. With several replicas, which see the
// same objects, the holder of the Lease writes.
type customStatuses struct {
	client dynamic.NamespaceableResourceInterface
	lease  *lease // nil: this is the only replica
	logger *slog.Logger

	mu     sync.Mutex
	wanted map[objectName]*wantedStatus
}

type wantedStatus struct {
	of     *CustomObject
	status CustomStatus
	notYet time.Time // no attempt before
	// has is the object that was found to have the status, which takes long to find out; nil: none.
	has *CustomObject
}

func newCustomStatuses(client dynamic.NamespaceableResourceInterface, lease *lease,
	logger *slog.Logger) *customStatuses {
	return &customStatuses{client: client, lease: lease, logger: logger, wanted: map[objectName]*wantedStatus{}}
}

func (s *customStatuses) put(customObject *CustomObject, status CustomStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := objectName{customObject.Namespace, customObject.Name}
	if was := s.wanted[key]; was != nil && was.of.UID == customObject.UID && was.of.Generation == customObject.Generation {
		if !status.equal(was.status) {
			was.has = nil
		}
		was.of, was.status = customObject, status // an attempt that failed is not repeated sooner
		return
	}
	s.wanted[key] = &wantedStatus{of: customObject, status: status}
}

// saw takes over the status that an object has now.
func (s *customStatuses) saw(key objectName, now *CustomObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.wanted[key]; w != nil && w.of.UID == now.UID && w.of.Generation == now.Generation {
		w.of = now
	}
}

// refresh takes over the statuses that the objects have now, and drops those of objects that are gone.
func (s *customStatuses) refresh(exists map[objectName]*CustomObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.wanted, func(key objectName, w *wantedStatus) bool {
		now := exists[key]
		if now == nil || now.UID != w.of.UID {
			return true
		}
		if now.Generation == w.of.Generation { // otherwise the wanted status is about another spec
			w.of = now
		}
		return false
	})
}

// run writes until the context ends.
func (s *customStatuses) run(ctx context.Context) {
	for ctx.Err() == nil {
		if s.lease == nil || s.lease.holds.Load() {
			for _, w := range s.due(time.Now()) {
				s.write(ctx, w)
			}
		}
		sleep(ctx, statusInterval, nil)
	}
}

// due returns the statuses that differ from those that the objects have.
func (s *customStatuses) due(now time.Time) (due []wantedStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wanted {
		if now.Before(w.notYet) || w.has == w.of {
			continue
		}
		if w.has = nil; w.written() {
			w.has = w.of
			continue
		}
		w.notYet = now.Add(statusRetry) // also the time for the watch to show it
		due = append(due, *w)
	}
	return due
}

// document is the status of a custom object.
type statusDocument struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// written reports whether the object has the status.
func (w *wantedStatus) written() bool {
	var has statusDocument
	fields := map[string]any{}
	if json.Unmarshal(w.of.Status, &has) != nil || json.Unmarshal(w.of.Status, &fields) != nil ||
		has.ObservedGeneration != w.of.Generation {
		return false
	}
	for name, value := range w.status.Fields {
		if has, there := fields[name]; there != (value != "") || there && has != value {
			return false
		}
	}
	return !slices.ContainsFunc(w.status.Conditions, func(c Condition) bool {
		is := meta.FindStatusCondition(has.Conditions, c.Type)
		return is == nil || (is.Status == metav1.ConditionTrue) != c.True || is.Reason != c.Reason ||
			is.Message != text(c.Message) ||
			is.ObservedGeneration != w.of.Generation
	})
}

// text is a message that is not too long. It ends between two letters: the API server would store half of
// one as another, and the status would seem to differ.
func text(message string) string {
	end := min(len(message), maxStatusText)
	for end > 0 && end < len(message) && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end]
}

// patch is the JSON patch that writes the status, to the object of this UID alone: after an outage the name may be that
// of a later namespace's. (Of a merge patch to a status, the API server ignores the UID.) A condition keeps its time
// unless it changes.
func (w *wantedStatus) patch(now time.Time) ([]byte, error) {
	var has statusDocument
	fields := map[string]any{}
	_ = json.Unmarshal(w.of.Status, &has) // an unreadable status is replaced
	_ = json.Unmarshal(w.of.Status, &fields)
	if fields == nil {
		fields = map[string]any{}
	}
	for _, c := range w.status.Conditions {
		state := metav1.ConditionFalse
		if c.True {
			state = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&has.Conditions, metav1.Condition{Type: c.Type, Status: state, Reason: c.Reason,
			Message:            text(c.Message),
			ObservedGeneration: w.of.Generation, LastTransitionTime: metav1.NewTime(now)})
	}
	fields["observedGeneration"], fields["conditions"] = w.of.Generation, has.Conditions
	for name, value := range w.status.Fields {
		if fields[name] = value; value == "" {
			delete(fields, name)
		}
	}
	if len(has.Conditions) == 0 {
		delete(fields, "conditions")
	}
	return json.Marshal([]jsonPatch{{"test", "/metadata/uid", w.of.UID}, {"add", "/status", fields}})
}

// errAnother is the error of a patch that is for another object than the one that has the name.
var errAnother = errors.New("another object has the name")

func (s *customStatuses) write(ctx context.Context, w wantedStatus) {
	body, err := w.patch(time.Now())
	if err != nil {
		s.logger.Error("cannot encode a status", "namespace", w.of.Namespace, "name", w.of.Name, "err", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var client dynamic.ResourceInterface = s.client
	if w.of.Namespace != "" {
		client = s.client.Namespace(w.of.Namespace)
	}
	_, err = client.Patch(ctx, w.of.Name, types.JSONPatchType, body, metav1.PatchOptions{}, "status")
	another := changeFaults{}.sorted(err, errAnother, "") // the watch will tell
	if err != nil && !apierrors.IsNotFound(err) && another != errAnother && ctx.Err() == nil {
		s.logger.Warn("cannot write a status", "namespace", w.of.Namespace, "name", w.of.Name, "err", err)
	}
}
