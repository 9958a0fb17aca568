package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

func (a *api) watchUsage(t *testing.T, path string) *usageEvents {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/apis/usage.sluice.dev/v1alpha1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	patient := *a.client
	patient.Timeout = 0
	response, err := patient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
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
	if status, _ := got(t, a, "/apis/usage.sluice.dev/v1alpha1/derivednodes", "application/json"); status != http.StatusOK {
		t.Errorf("a list beside the watches is answered with %d", status)
	}
}
