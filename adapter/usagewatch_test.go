package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
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
		if (namespace == "" || namespace == pod.Namespace) && (name == "" || name == pod.Name) && selector.Matches(labels.Set(pod.LabelMap())) {
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
		return usage.Pod{Namespace: "shop", Name: name, UID: uid, Node: "node", Labels: labelMap("app", name)}
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

// listedUsage is what a watch looks at. It counts what is asked of it.
type listedUsage struct {
	versions    map[usageKey]uint64
	hidden      map[usageKey]bool // there is no object of these
	newest      uint64
	lists, made int
	held        *readerShares
}

func (l *listedUsage) watchable() watchable {
	return watchable{
		list: func() iter.Seq2[usageKey, uint64] {
			l.lists++
			return maps.All(l.versions)
		},
		object: func(of usageKey) runtime.Object {
			if l.made++; l.hidden[of] {
				return nil
			}
			return &DerivedPod{ObjectMeta: metav1.ObjectMeta{Name: of.name}}
		},
		newest:      func() uint64 { return l.newest },
		empty:       func(m metav1.ObjectMeta) runtime.Object { return &DerivedPod{ObjectMeta: m} },
		watchBounds: watchBounds{held: l.held},
	}
}

// put has a report of each key.
func (l *listedUsage) put(names ...string) {
	l.newest++
	for _, name := range names {
		l.versions[usageKey{name: name}] = l.newest
	}
}

// sentBy is what a watch sends at one look.
func sentBy(w *usageWatch, from uint64) (all []string) {
	changes, _ := w.changes(from)
	for _, change := range changes {
		if event, ok := w.event(change); ok {
			all = append(all, string(event.Type)+" "+event.Object.(*DerivedPod).Name)
		}
	}
	slices.Sort(all)
	return all
}

// A watch makes an object when it sends it, and keeps none: 75 watches of 2,000 containers had kept 1.3 GB, made anew each
// second.
func TestWatchesMakeWhatTheySend(t *testing.T) {
	l := &listedUsage{versions: map[usageKey]uint64{}, hidden: map[usageKey]bool{{name: "idle"}: true}, held: newReaderShares(100, 0)}
	l.put("a", "b", "idle")
	w := &usageWatch{of: l.watchable(), known: map[usageKey]knownUsage{}}
	for i, step := range []struct {
		change      func()
		want        []string
		made, lists int
	}{
		{func() {}, []string{"ADDED a", "ADDED b"}, 3, 1},
		{func() {}, nil, 0, 0},
		{func() { l.put("a") }, []string{"MODIFIED a"}, 1, 1},
		{func() { l.put() }, nil, 0, 1},
		{func() { l.hidden[usageKey{name: "b"}] = true; l.put("b") }, []string{"DELETED b"}, 1, 1},
		{func() { delete(l.hidden, usageKey{name: "idle"}); l.put("idle", "c") }, []string{"ADDED c", "ADDED idle"}, 2, 1},
		{func() { delete(l.versions, usageKey{name: "b"}); delete(l.versions, usageKey{name: "a"}); l.put() }, []string{"DELETED a"}, 0, 1},
	} {
		l.made, l.lists = 0, 0
		step.change()
		if got := sentBy(w, 0); !slices.Equal(got, step.want) || l.made != step.made || l.lists != step.lists {
			t.Errorf("look %d sent %v, made %d objects and listed %d times; want %+v", i, got, l.made, l.lists, step)
		}
	}
	delete(l.versions, usageKey{name: "c"})
	var ended []string
	for range looksWithoutReports {
		ended = append(ended, sentBy(w, 0)...)
	}
	if !slices.Equal(ended, []string{"DELETED c"}) {
		t.Errorf("without reports, a pod that ended has events %v", ended)
	}
	after := &usageWatch{of: l.watchable(), known: map[usageKey]knownUsage{}} // of who has listed
	l.hidden[usageKey{name: "new"}] = true
	l.put("new")
	if got := sentBy(after, l.newest); got != nil {
		t.Errorf("after a list, sent %v", got)
	}
	l.hidden = nil
	l.put("idle", "new")
	if got := sentBy(after, 0); !slices.Equal(got, []string{"ADDED new", "MODIFIED idle"}) {
		t.Errorf("after a list and a report, sent %v", got)
	}
}

// What the watches of a reader know has a share, which they give back.
func TestWatchesHaveAShareOfWhatTheyKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listedUsage{versions: map[usageKey]uint64{}, held: newReaderShares(8, 0)}
		l.put("a", "b", "c", "d")
		as := func(name string) (context.Context, context.CancelFunc) {
			return context.WithCancel(request.WithUser(t.Context(), &user.DefaultInfo{Name: accountPrefix + name}))
		}
		ctx, end := as("shop:one")
		first, err := watchUsage(ctx, nil, l.watchable())
		must(t, err)
		again, _ := as("shop:another")
		if _, err := watchUsage(again, nil, l.watchable()); !apierrors.IsTooManyRequests(err) {
			t.Errorf("4 more objects of a namespace that has 4 of 8: %v", err)
		}
		other, endOther := as("bank:one")
		theirs := &listedUsage{versions: map[usageKey]uint64{{name: "x"}: 1}, held: l.held}
		second, err := watchUsage(other, nil, theirs.watchable())
		must(t, err)
		if held := l.held.taken.Held(); held != 5 {
			t.Errorf("%d objects are known, want 5", held)
		}
		end()
		endOther()
		for _, w := range []watch.Interface{first, second} {
			for range w.ResultChan() {
			}
		}
		synctest.Wait()
		if held := l.held.taken.Held(); held != 0 {
			t.Errorf("%d objects are known after the watches", held)
		}
		w := &usageWatch{of: l.watchable(), known: map[usageKey]knownUsage{}, reader: "shop"}
		w.changes(0)
		l.held.take("bank", 2, "")
		l.put("a", "b", "c", "d", "e", "f")
		if _, full := w.changes(0); full == "" {
			t.Error("a watch goes on beyond the share of its reader")
		}
	})
}
