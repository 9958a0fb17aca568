package cluster

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A nudge is for one autoscaler, and not for the one that has its name after it, perhaps in another namespace: the
// names of both may be the same, and the policies are where they are the defaults.
func TestNoNudgeInTheNextNamespace(t *testing.T) {
	const has = "of-the-next"
	applied := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var steps []jsonPatch
		if err := json.Unmarshal(body, &steps); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		for _, step := range steps {
			if step.Op == "test" && step.Path == "/metadata/uid" && step.Value != has {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
					Status: "Failure", Code: http.StatusUnprocessableEntity, Message: doesNotApply})
				return
			}
		}
		applied++
		_, _ = io.WriteString(w, `{"metadata":{"generation":2}}`)
	}))
	t.Cleanup(server.Close)
	nudges, err := NewNudges(&Client{rest: &rest.Config{Host: server.URL}}, &View{})
	must(t, err)
	former := &inspect.Autoscaler{Namespace: "shop", Name: "worker", UID: "of-the-former", Generation: 1}
	if _, err := nudges.Nudge(t.Context(), former); !errors.Is(err, ErrConflict) {
		t.Errorf("nudged the next one: %v", err)
	}
	former.Mark, former.ScaleUp = inspect.MarkedBehavior, &inspect.ScalingRules{Policies: inspect.DefaultScaleUp}
	if err := nudges.TakeBack(t.Context(), former); !errors.Is(err, ErrConflict) {
		t.Errorf("took back from the next one: %v", err)
	}
	next := &inspect.Autoscaler{Namespace: "shop", Name: "worker", UID: has, Generation: 1}
	if generation, err := nudges.Nudge(t.Context(), next); err != nil || generation != 2 || applied != 1 {
		t.Errorf("generation %d, %v, %d patches", generation, err, applied)
	}
}
