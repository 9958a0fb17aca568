package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// An Event that the API server did not take at once is not written into the next namespace of the name.
func TestNoEventInTheNextNamespace(t *testing.T) {
	for name, now := range map[string][]corev1.Namespace{
		"the same": {{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "former"}}},
		"the next": {{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "next"}}},
		"gone":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			posts := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				w.Header().Set("Content-Type", "application/json")
				if r.Method == http.MethodGet {
					_ = json.NewEncoder(w).Encode(corev1.NamespaceList{TypeMeta: metav1.TypeMeta{Kind: "NamespaceList", APIVersion: "v1"}, Items: now})
					return
				}
				if posts++; posts == 1 {
					panic(http.ErrAbortHandler) // no answer
				}
				_ = json.NewEncoder(w).Encode(corev1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}})
			}))
			t.Cleanup(server.Close)
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
			must(t, err)
			e := newEvents(client, newResources(), quiet)
			e.pause, e.namespace = time.Millisecond, func(string) string { return "former" }
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				e.run(ctx)
			}()
			e.add(metric.Object{Resource: podResource, Namespace: "shop", Name: "web-1", UID: "u1"}, news{reason: "MetricRefused", message: "x"})
			eventually(t, "the outcome", func() bool { return e.sent.Load()+e.dropped.Load() > 0 })
			stop()
			<-ended
			if want := name == "the same"; (e.sent.Load() == 1) != want || (posts == 2) != want {
				t.Errorf("%d written, %d requests to write; want it written: %v", e.sent.Load(), posts, want)
			}
		})
	}
}

// An Event's name has the object's in it, which may be as long as a name can be.
func TestEventsOnLongNames(t *testing.T) {
	var posted []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event := corev1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}}
		if r.Method == http.MethodPost {
			must(t, json.NewDecoder(r.Body).Decode(&event))
			posted = append(posted, event.Name)
		}
		w.Header().Set("Content-Type", "application/json")
		must(t, json.NewEncoder(w).Encode(event))
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	must(t, err)
	long := strings.Repeat("a", 234) + "-." + strings.Repeat("b", 17)
	for _, replicas := range []bool{false, true} {
		e := newEvents(client, newResources(), quiet)
		if replicas {
			e.lease = &lease{}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.run(ctx)
		}()
		for i := range 12 { // client-go makes names of its own for the last ones
			e.add(metric.Object{Resource: podResource, Namespace: "shop", Name: long, UID: "u1"},
				news{reason: "MetricRefused", about: fmt.Sprint(i), message: fmt.Sprint("x", i)})
		}
		eventually(t, "all are written", func() bool { return e.sent.Load() == 12 })
		stop()
		<-ended
	}
	if len(posted) < 20 {
		t.Errorf("%d Events", len(posted))
	}
	for _, name := range posted {
		if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 || !strings.HasPrefix(name, long[:230]) {
			t.Errorf("%q: %v", name, faults)
		}
	}
}
