package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"k8s.io/apimachinery/pkg/labels"
)

// changingUsage is a fakeUsage whose pods come, go and use something else.
type changingUsage struct {
	fakeUsage
	mu      sync.Mutex // guards the fields below
	pods    []usage.Pod
	version uint64
}

func (u *changingUsage) change(pods ...usage.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pods, u.version = pods, u.version+1
}

func (u *changingUsage) Pods(namespace, name string, selector labels.Selector) (all []usage.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, pod := range u.pods {
		if (namespace == "" || namespace == pod.Namespace) && (name == "" || name == pod.Name) && selector.Matches(labels.Set(pod.Labels)) {
			all = append(all, pod)
		}
	}
	return all
}

func (u *changingUsage) Version(node string) (of, newest uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if node == "idle" {
		return 1, u.version
	}
	return u.version, u.version
}

// usageEvents is a watch that a test reads.
type usageEvents struct {
	t    *testing.T
	body *http.Response
	from *json.Decoder
}

func (a *api) watchUsage(t *testing.T, path string, token ...string) *usageEvents {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/apis/usage.sluice.dev/v1alpha1"+path, nil)
	must(t, err)
	for _, of := range token {
		request.Header.Set("Authorization", "Bearer "+of)
	}
	patient := *a.client
	patient.Timeout = 0
	response, err := patient.Do(request)
	must(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return &usageEvents{t, response, json.NewDecoder(response.Body)}
}

// want reads events, which may come in any order.
func (w *usageEvents) want(all ...string) {
	w.t.Helper()
	left := map[string]bool{}
	for _, one := range all {
		left[one] = true
	}
	for len(left) > 0 {
		var event struct {
			Type   string
			Object struct {
				Kind     string
				Code     int
				Metadata struct {
					Name, ResourceVersion string
					Annotations           map[string]string
				}
				Containers []any
				Machine    map[string]any
			}
		}
		if err := w.from.Decode(&event); err != nil {
			w.t.Fatalf("%v, want %v", err, left)
		}
		got := strings.TrimSpace(event.Type + " " + event.Object.Metadata.Name)
		if event.Type == "ERROR" {
			got = fmt.Sprint("ERROR ", event.Object.Code)
		}
		if !left[got] {
			w.t.Fatalf("event %+v, want %v", event, left)
		}
		if event.Type == "ADDED" && len(event.Object.Containers)+len(event.Object.Machine) == 0 || event.Type != "ERROR" && event.Object.Metadata.ResourceVersion == "" {
			w.t.Errorf("event %+v", event)
		}
		delete(left, got)
	}
}

// Who watches hears of each report of a node, of pods that come and go, and of no others.
func TestWatchUsage(t *testing.T) {
	source := &changingUsage{}
	shop := func(name, uid string) usage.Pod {
		return usage.Pod{Namespace: "shop", Name: name, UID: uid, Node: "node", Labels: map[string]string{"app": name}}
	}
	idle := usage.Pod{Namespace: "shop", Name: "idle", UID: "9", Node: "idle"}
	source.change(shop("a", "1"), idle, usage.Pod{Namespace: "mail", Name: "c", UID: "3", Node: "node"})
	a := startUsed(t, source)
	_, list := got(t, a, "/apis/usage.sluice.dev/v1alpha1/namespaces/shop/derivedpods", "application/json")
	if !strings.Contains(list, `"metadata":{"resourceVersion":"1"}`) {
		t.Errorf("the list is %s", list)
	}
	every, later := a.watchUsage(t, "/namespaces/shop/derivedpods?watch=true"), a.watchUsage(t, "/namespaces/shop/derivedpods?watch=true&resourceVersion=1")
	some := a.watchUsage(t, "/derivedpods?watch=true&labelSelector=app%3Db")
	first := a.watchUsage(t, "/namespaces/shop/derivedpods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	nodes := a.watchUsage(t, "/derivednodes?watch=true")
	every.want("ADDED a", "ADDED idle")
	first.want("ADDED a", "ADDED idle")
	first.want("BOOKMARK")
	nodes.want("ADDED node")
	time.Sleep(2 * lookAtUsageEvery) // later has looked
	source.change(shop("a", "1"), idle, shop("b", "2"))
	for _, w := range []*usageEvents{every, later, first} {
		w.want("MODIFIED a", "ADDED b")
	}
	some.want("ADDED b")
	nodes.want("MODIFIED node")
	source.change(idle, shop("b", "4")) // of the same name
	for _, w := range []*usageEvents{every, later} {
		w.want("DELETED a", "DELETED b", "ADDED b")
	}
	some.want("DELETED b", "ADDED b")

	for query, code := range map[string]int{"resourceVersion=99": http.StatusGone, "resourceVersion=x": http.StatusBadRequest} {
		status, body := got(t, a, "/apis/usage.sluice.dev/v1alpha1/derivedpods?watch=true&"+query, "application/json")
		if status != code && !strings.Contains(body, fmt.Sprintf(`"code":%d`, code)) {
			t.Errorf("%s: %d %s, want %d", query, status, body, code)
		}
	}
	if status, body := got(t, a, "/apis/usage.sluice.dev/v1alpha1", "application/json"); !strings.Contains(body, `"watch"`) {
		t.Errorf("discovery says %d %s", status, body)
	}
	short := a.watchUsage(t, "/derivednodes?watch=true&timeoutSeconds=1")
	short.want("ADDED node")
	if err := short.from.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		t.Errorf("a watch of a second ends with %v", err)
	}
	// The end of the server ends watches, which would hold it up.
	a.stop()
	for {
		if err := every.from.Decode(&struct{}{}); err != nil {
			break
		}
	}
}

// Watches take no place of other requests, and there are no more than so many.
func TestWatchesAreBounded(t *testing.T) {
	source := &changingUsage{}
	source.change()
	a := startUsed(t, source)
	for range maxWatches {
		if w := a.watchUsage(t, "/derivednodes?watch=true"); w.body.StatusCode != http.StatusOK {
			t.Fatal(w.body.Status)
		}
	}
	if w := a.watchUsage(t, "/derivednodes?watch=true"); w.body.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more watch is answered with %s", w.body.Status)
	}
	for range DefaultConfig().MaxInFlight + 1 { // the path of watches that Kubernetes had before
		if w := a.watchUsage(t, "/watch/derivednodes"); w.body.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("one more watch is answered with %s", w.body.Status)
		}
	}
	for _, query := range []string{"", "?watch=false", "?watch=0"} {
		if status, _ := got(t, a, "/apis/usage.sluice.dev/v1alpha1/derivednodes"+query, "application/json"); status != http.StatusOK {
			t.Errorf("a list%s beside the watches is answered with %d", query, status)
		}
	}
}

// Watches whose clients are not known yet take no place of those that are served, and one address not all of them.
func TestWatchesOfStrangers(t *testing.T) {
	ask := func(next http.Handler, from string) int {
		r, w := httptest.NewRequest(http.MethodGet, "/apis/usage.sluice.dev/v1alpha1/derivednodes?watch=true", nil), httptest.NewRecorder()
		r.RemoteAddr = from + ":1234"
		next.ServeHTTP(w, r)
		return w.Code
	}
	var limited http.Handler
	depth := 0
	limited = limitInFlightPerClient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch depth++; {
		case r.RemoteAddr == "10.0.0.2:1234":
			return
		case depth < maxWatches:
			ask(limited, "10.0.0.1")
			return
		}
		if again, other := ask(limited, "10.0.0.1"), ask(limited, "10.0.0.2"); again != http.StatusTooManyRequests || other != http.StatusOK {
			t.Errorf("beside %d of its watches, an address gets %d and another one %d; want 429 and 200", maxWatches, again, other)
		}
	}), 1, nil)
	ask(limited, "10.0.0.1")
}

// A watch ends with its client's right, also where a later namespace has the name.
func TestWatchesEndWithTheirRight(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["of-reader"] = "reader"
	rights := []string{"watch usage.sluice.dev/derivedpods in shop"}
	plane.rights["reader"] = rights
	source := &changingUsage{}
	pod := usage.Pod{Namespace: "shop", Name: "a", UID: "1", Node: "node"}
	source.change(pod)
	cfg := configured(nil)
	cfg.ResourceMetrics = true
	server, err := New(cfg, Parts{Source: shop(), Usage: source, Cluster: newTown(), API: plane.rest(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { routeKlog(slog.New(slog.DiscardHandler)) })
	a := running(t, server)
	a.waitReady(t)
	begin := func() *usageEvents {
		return a.watchUsage(t, "/namespaces/shop/derivedpods?watch=true&timeoutSeconds=100000", "of-reader")
	}
	granted := begin()
	granted.want("ADDED a")
	source.change(pod)
	granted.want("MODIFIED a") // its right was asked for anew
	plane.set(func() { plane.rights["reader"] = nil })
	server.EndNamespace("shop")
	for { // what was on its way may come
		var event map[string]any
		if err := granted.from.Decode(&event); err != nil {
			break
		}
	}
	if w := begin(); w.body.StatusCode != http.StatusForbidden {
		t.Errorf("without the right, a watch is answered with %s", w.body.Status)
	}
	plane.set(func() { plane.rights["reader"] = rights })
	begin().want("ADDED a")
}
