package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// scales answers patches of scale subresources.
type scales struct {
	*FirstReplicas

	mu      sync.Mutex
	uid     string   // of the autoscaler that the API server has
	patches []string // paths with bodies
	answer  func(body string) (int, string)
}

func newScales(t *testing.T) *scales {
	t.Helper()
	s := &scales{uid: "uid"}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	view := &View{resources: newResources()}
	view.resources.set([]resource{
		{resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, namespaced: true},
		{resource: schema.GroupResource{Resource: "replicationcontrollers"}, kind: schema.GroupVersionKind{Version: "v1", Kind: "ReplicationController"}, namespaced: true},
	})
	var err error
	s.FirstReplicas, err = NewFirstReplicas(&Client{rest: &rest.Config{Host: server.URL}}, view)
	must(t, err)
	return s
}

func (s *scales) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	if r.Method == http.MethodGet {
		defer s.mu.Unlock()
		list := metav1.PartialObjectMetadataList{}
		if r.URL.Path == "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers" &&
			r.URL.Query().Get("fieldSelector") == "metadata.name=worker" && s.uid != "" {
			list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: types.UID(s.uid)}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	s.patches = append(s.patches, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
	answer := s.answer
	s.mu.Unlock()
	code, message := http.StatusOK, ""
	if answer != nil {
		code, message = answer(string(body))
	}
	w.Header().Set("Content-Type", "application/json")
	if code >= http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "0") // client-go would try again by itself
	}
	w.WriteHeader(code)
	if code == http.StatusOK {
		_, _ = io.WriteString(w, `{"kind":"Scale","apiVersion":"autoscaling/v1"}`)
		return
	}
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
		Code: int32(code), Message: message, Reason: reasons[code]}
	if cause, is := strings.CutPrefix(message, "Internal error occurred: "); is {
		status.Reason = metav1.StatusReasonInternalError
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: cause}}}
	}
	_ = json.NewEncoder(w).Encode(status)
}

var reasons = map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
	409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid}

func scaled(apiVersion, kind string) *inspect.Autoscaler {
	return &inspect.Autoscaler{Namespace: "shop", Name: "worker", UID: "uid", TargetAPIVersion: apiVersion, TargetKind: kind, TargetName: "worker"}
}

func TestTheFirstReplicaIsOnePatch(t *testing.T) {
	for path, autoscaler := range map[string]*inspect.Autoscaler{
		"/apis/apps/v1/namespaces/shop/deployments/worker/scale":      scaled("apps/v1", "Deployment"),
		"/api/v1/namespaces/shop/replicationcontrollers/worker/scale": scaled("v1", "ReplicationController"),
		"/apis/apps/v1/namespaces/shop/deployments/worker/scale ":     scaled("apps/v1beta2", "Deployment"),
	} {
		s := newScales(t)
		must(t, s.Set(t.Context(), autoscaler))
		if want := "PATCH " + strings.TrimSpace(path) + " application/json-patch+json"; len(s.patches) != 1 || s.patches[0] != want {
			t.Errorf("requests %q, want %q", s.patches, want)
		}
	}
}

// The namespace may have changed hands while the API server was away. The next one's target is none of ours, whether
// that namespace has an autoscaler of the name or not.
func TestNoFirstReplicaInTheNextNamespace(t *testing.T) {
	for _, uid := range []string{"", "of-the-next"} {
		s := newScales(t)
		s.uid = uid
		if err := s.Set(t.Context(), scaled("apps/v1", "Deployment")); !errors.Is(err, ErrConflict) || len(s.patches) != 0 {
			t.Errorf("UID %q: %v, patches %q", uid, err, s.patches)
		}
	}
}

// An API server that writes replicas of 0 needs the second spelling.
func TestTheFirstReplicaIsSetWhereZeroIsWritten(t *testing.T) {
	s := newScales(t)
	s.answer = func(body string) (int, string) {
		if strings.Contains(body, "null") {
			return http.StatusUnprocessableEntity, doesNotApply
		}
		return http.StatusOK, ""
	}
	if err := s.Set(t.Context(), scaled("apps/v1", "Deployment")); err != nil || len(s.patches) != 2 {
		t.Errorf("%v after %d patches", err, len(s.patches))
	}
}

func TestAnswersToAFirstReplica(t *testing.T) {
	for _, c := range []struct {
		code    int
		message string
		want    error // nil: none of the sorts
	}{
		{422, doesNotApply, ErrHasReplicas},
		{422, `ValidatingAdmissionPolicy 'night' denied request: closed`, ErrRefused},
		{403, `deployments.apps "worker" is forbidden: User "sluice" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop"`, ErrForbidden},
		{403, `admission webhook "night" denied the request: closed`, ErrRefused},
		{429, `admission webhook "night" denied the request: closed`, ErrRefused},
		{503, `admission webhook "night" denied the request without explanation`, ErrRefused},
		{500, `Internal error occurred: failed calling webhook "night": failed to call webhook: no endpoints available`, ErrFails},
		{404, `deployments.apps "worker" not found`, ErrNoTarget},
		{409, "the object has been modified", ErrConflict},
		{429, "too many requests", nil},
		{500, "etcd", nil},
		{504, "timeout", nil},
	} {
		s := newScales(t)
		s.answer = func(string) (int, string) { return c.code, c.message }
		err := s.Set(t.Context(), scaled("apps/v1", "Deployment"))
		sorted := false
		for _, one := range []error{ErrHasReplicas, ErrRefused, ErrForbidden, ErrNoTarget, ErrConflict, ErrFails} {
			if is := errors.Is(err, one); is != (one == c.want) {
				t.Errorf("%d %s: %v", c.code, c.message, err)
			} else {
				sorted = sorted || is
			}
		}
		if err == nil || sorted != (c.want != nil) {
			t.Errorf("%d %s: %v, want %v", c.code, c.message, err, c.want)
		}
		if n := len(s.patches); c.want != ErrHasReplicas && n != 1 {
			t.Errorf("%d %s: %d requests", c.code, c.message, n)
		}
	}
}

func TestAnUnknownKindIsNoTarget(t *testing.T) {
	s := newScales(t)
	for _, autoscaler := range []*inspect.Autoscaler{scaled("example.com/v1", "Worker"), scaled("a/b/c", "Worker")} {
		if err := s.Set(t.Context(), autoscaler); !errors.Is(err, ErrNoTarget) || len(s.patches) != 0 {
			t.Errorf("%v after %d requests", err, len(s.patches))
		}
	}
}

// A load balancer without an API server behind it answers for the API server as a whole.
func TestAnAnswerOfALoadBalancer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no healthy upstream", http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	nudges, err := NewNudges(&Client{rest: &rest.Config{Host: server.URL}}, &View{})
	must(t, err)
	_, err = nudges.Nudge(t.Context(), scaled("apps/v1", "Deployment"))
	if err == nil || errors.Is(err, ErrFails) || errors.Is(err, ErrRefused) {
		t.Errorf("%v, want an error that is none of one change", err)
	}
}

// A change that hangs while the API server answers others, as in an admission webhook, speaks of itself alone. Where
// the API server does not respond, it is an outage.
func TestAChangeThatHangs(t *testing.T) {
	s := newScales(t)
	answered := make(chan struct{})
	t.Cleanup(func() { close(answered) })
	s.answer = func(string) (int, string) {
		<-answered
		return http.StatusOK, ""
	}
	probe := &healthProbe{logger: quiet}
	s.faults = changeFaults{probe}
	for _, down := range []bool{false, true} {
		if down {
			probe.record(time.Now(), errors.New("connection refused"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := s.Set(ctx, scaled("apps/v1", "Deployment"))
		cancel()
		if err == nil || errors.Is(err, ErrFails) == down {
			t.Errorf("the API server is down: %v; %v", down, err)
		}
	}
}

func TestASlowAPIServerIsNotWaitedForLongerThanTheContext(t *testing.T) {
	s := newScales(t)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan struct{})
	t.Cleanup(func() { close(answered) })
	s.answer = func(string) (int, string) {
		cancel()
		select {
		case <-answered: // the test is over
		case <-time.After(10 * time.Second):
		}
		return http.StatusOK, ""
	}
	if err := s.Set(ctx, scaled("apps/v1", "Deployment")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the error of the context", err)
	}
}

// A flood is slowed down here: the API server has other clients.
func TestFirstReplicasAreSetAtABoundedRate(t *testing.T) {
	s := newScales(t)
	began := time.Now()
	const beyond = 25
	var all sync.WaitGroup
	for range scalesAtOnce + beyond {
		all.Go(func() {
			if err := s.Set(t.Context(), scaled("apps/v1", "Deployment")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took, want := time.Since(began), beyond*time.Second/scalesPerSecond; took < want*9/10 {
		t.Errorf("%d requests took %v, want %v at least", scalesAtOnce+beyond, took, want)
	}
}
