package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// taintedNodes is an API server of nodes alone.
type taintedNodes struct {
	mu     sync.Mutex
	taints map[string][]corev1.Taint
	asked  []string
	fail   int // so many patches
}

func (n *taintedNodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := path.Base(r.URL.Path)
	n.asked = append(n.asked, r.Method+" "+name)
	taints, known := n.taints[name]
	fail := func(code int32) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(code))
		reason := map[int32]metav1.StatusReason{404: metav1.StatusReasonNotFound, 422: metav1.StatusReasonInvalid}[code]
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason})
	}
	switch {
	case !known:
		fail(404)
		return
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		if n.fail--; n.fail >= 0 {
			fail(422)
			return
		}
		at := slices.IndexFunc(taints, func(t corev1.Taint) bool { return t.Key == AgentNotReady })
		want := fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":"uid-%s"},{"op":"test","path":"/spec/taints/%d/key","value":"%s"},{"op":"remove","path":"/spec/taints/%d","value":null}]`,
			name, at, AgentNotReady, at)
		if string(body) != want {
			fail(422)
			return
		}
		n.taints[name] = slices.Delete(slices.Clone(taints), at, at+1)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.NodeSpec{Taints: n.taints[name]}})
}

// The taint of a node whose agent came is removed, whatever its place and effect, and no other one. What
// fails is tried again, and a node without the taint is only read.
func TestStartupTaints(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Effect: effect}
	}
	nodes := &taintedNodes{fail: 1, taints: map[string][]corev1.Taint{
		"new": {taint("other", corev1.TaintEffectNoSchedule), taint(AgentNotReady, corev1.TaintEffectNoSchedule),
			taint(AgentNotReady, corev1.TaintEffectNoExecute), taint("another", corev1.TaintEffectNoSchedule)},
		"old":     {taint("other", corev1.TaintEffectNoSchedule)},
		"waiting": {taint(AgentNotReady, corev1.TaintEffectNoSchedule)},
	}}
	server := httptest.NewServer(nodes)
	t.Cleanup(server.Close)
	s, err := NewStartupTaints(&Client{rest: &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}}, slog.New(slog.DiscardHandler))
	must(t, err)
	s.retry = time.Millisecond
	for _, node := range []string{"old", "gone", "old", "new"} {
		s.AgentCame(node)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	var asked []string
	for len(asked) < 9 {
		time.Sleep(time.Millisecond)
		nodes.mu.Lock()
		asked = slices.Clone(nodes.asked)
		nodes.mu.Unlock()
	}
	cancel()
	must(t, <-done)
	// The newest is the first, and one that fails the last.
	if got := strings.Join(asked, ", "); got != "GET new, PATCH new, GET gone, GET old, GET new, PATCH new, GET new, PATCH new, GET new" {
		t.Error(got)
	}
	if left := nodes.taints["new"]; len(left) != 2 || left[0].Key != "other" || left[1].Key != "another" || len(nodes.taints["old"]) != 1 || len(nodes.taints["waiting"]) != 1 {
		t.Errorf("%v", nodes.taints)
	}
}
