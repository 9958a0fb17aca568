package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	podsPath        = "/api/v1/pods"
	limitsPath      = "/api/v1/limitranges"
	autoscalersPath = "/apis/autoscaling/v2/horizontalpodautoscalers"
	deploymentsPath = "/apis/apps/v1/deployments"
)

func aDeployment(namespace, name, uid string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), Labels: map[string]string{"tier": name},
	}}
}

func TestViewFollowsTheCluster(t *testing.T) {
	s := newAPIServer(t)
	s.serve(deploymentsPath, "Deployment")
	s.put(podsPath, aPod("shop", "web-1", "u1", "10.0.0.1"))
	s.put(deploymentsPath, aDeployment("shop", "web", "d1"))
	v := s.view(t, "deployments.apps")
	v.waitSynced(t)
	if _, detail := v.Synced(); detail != "" {
		t.Errorf("synced, but %q", detail)
	}
	if got := v.Sender(netip.MustParseAddr("::ffff:10.0.0.1")); got == nil || got.Pod == nil || got.Pod.Name != "web-1" {
		t.Errorf("the sender is %+v, want web-1 by its IPv4 address in IPv6 form", got)
	}
	uid, exists, watched := v.Object("deployments.apps", "shop", "web")
	if uid != "d1" || !exists || !watched {
		t.Errorf("web: %q, %v, %v", uid, exists, watched)
	}

	s.put(podsPath, aPod("shop", "web-2", "u2", "10.0.0.2"))
	eventually(t, "web-2", func() bool { return v.PodWithUID("u2") != nil })
	s.remove(podsPath, aPod("shop", "web-1", "u1", "10.0.0.1"))
	eventually(t, "the end of web-1", func() bool { return v.PodNamed("shop", "web-1") == nil })
	s.remove(deploymentsPath, aDeployment("shop", "web", "d1"))
	eventually(t, "the end of the deployment", func() bool {
		return v.told.isGone(metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web", UID: "d1"})
	})
	s.put(limitsPath, aLimitRange("shop", "a", podItem("7", "")))
	eventually(t, "a limit", func() bool { return v.Limits("shop").Pod.Metrics == 7 })
	s.put(autoscalersPath, anAutoscaler("shop", "a", podsMetric("http_requests:rate:10s")))
	eventually(t, "what is asked for", func() bool { return v.NamedByAutoscaler("shop", "pods", "http_requests") })
}

// An API server before 1.34 may not stream a list.
func TestListThatCannotBeStreamed(t *testing.T) {
	s := newAPIServer(t)
	s.streams = false
	s.put(podsPath, aPod("shop", "web-1", "u1", "10.0.0.1"))
	v := s.view(t)
	v.waitSynced(t)
	if v.PodWithUID("u1") == nil {
		t.Error("the listed pod is not known")
	}
	s.put(podsPath, aPod("shop", "web-2", "u2", "10.0.0.2"))
	eventually(t, "web-2", func() bool { return v.PodWithUID("u2") != nil })
	if failures := v.required[0].health.failureCount(); failures != 0 {
		t.Errorf("%d failures counted of an API server that answers", failures)
	}
}

func TestLostWatchFindsWhatHappenedMeanwhile(t *testing.T) {
	s := newAPIServer(t)
	for i, name := range []string{"a", "b"} {
		s.put(podsPath, aPod("shop", name, "u"+name, []string{"10.0.0.1", "10.0.0.2"}[i]))
	}
	v := s.view(t)
	v.waitSynced(t)
	before := s.listed(podsPath)
	kept := v.Sender(netip.MustParseAddr("10.0.0.1"))

	s.mu.Lock()
	delete(s.served[podsPath].objects, types.NamespacedName{Namespace: "shop", Name: "b"}) // without an event
	s.mu.Unlock()
	s.cutWatches(true)
	eventually(t, "a list read anew", func() bool { return s.listed(podsPath) > before })
	eventually(t, "the end of b", func() bool { return v.PodNamed("shop", "b") == nil })
	if !v.told.isGone(metric.Object{Resource: "pods", Namespace: "shop", Name: "b", UID: "ub"}) {
		t.Error("nobody was told that b is gone")
	}
	if now := v.Sender(netip.MustParseAddr("10.0.0.1")); now != kept {
		t.Errorf("a's sender is %+v after the list was read anew, before %+v", now, kept)
	}
}

func TestAPIServerAwayAndBack(t *testing.T) {
	s := newAPIServer(t)
	s.put(podsPath, aPod("shop", "web-1", "u1", "10.0.0.1"))
	v := s.view(t)
	v.waitSynced(t)

	s.stop()
	eventually(t, "that it is said", func() bool {
		_, detail := v.Synced()
		return strings.Contains(detail, "no answer about API resources, pods, limitranges, horizontalpodautoscalers.autoscaling, replicasets.apps since") &&
			strings.Count(detail, "connection refused") == 1
	})
	if _, detail := v.Synced(); strings.Contains(detail, "http") {
		t.Errorf("a URL is no cause: %s", detail)
	}
	for _, line := range strings.Split(v.logs.String(), "\n") {
		if strings.Contains(line, "does not answer") && strings.Contains(line, "http") {
			t.Errorf("logged with a URL: %s", line)
		}
	}
	if ok, _ := v.Synced(); !ok {
		t.Error("what was synced once is not any more")
	}
	if v.Sender(netip.MustParseAddr("10.0.0.1")) == nil || !v.Alive(metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"}) {
		t.Error("what was known is forgotten")
	}
	if _, _, err := v.Canonical("pod"); err != nil {
		t.Errorf("the resources are forgotten: %v", err)
	}
	eventually(t, "that it is logged", func() bool { return v.logs.Count("does not answer") > 0 })
	if n := v.logs.Count("does not answer"); n > 5 {
		t.Errorf("logged %d times, want once for each resource", n)
	}
	registry := prometheus.NewRegistry()
	must(t, v.Register(registry))
	if n, err := testutil.GatherAndCount(registry, "sluice_cluster_watch_errors_total", "sluice_cluster_unanswered_seconds"); n != 10 || err != nil {
		t.Errorf("%d metrics, %v", n, err)
	}

	s.put(podsPath, aPod("shop", "web-2", "u2", "10.0.0.2"))
	s.start(s.at)
	eventually(t, "web-2", func() bool { return v.PodWithUID("u2") != nil })
	eventually(t, "that all is well", func() bool { _, detail := v.Synced(); return detail == "" })
}

func TestAPIServerAwayAtStart(t *testing.T) {
	s := newAPIServer(t)
	s.stop()
	v := s.view(t, "deployments.apps")
	eventually(t, "a reason", func() bool {
		ok, detail := v.Synced()
		return !ok && strings.Contains(detail, "waiting for API resources, pods") && strings.Contains(detail, "connection refused")
	})
	if _, _, err := v.Canonical("pods"); err == nil || !strings.Contains(err.Error(), "known yet") {
		t.Errorf("Canonical: %v", err)
	}
	s.serve(deploymentsPath, "Deployment")
	s.start(s.at)
	v.waitSynced(t)
}

func TestForbiddenIsSaidClearly(t *testing.T) {
	s := newAPIServer(t)
	s.forbid(podsPath, true)
	v := s.view(t)
	eventually(t, "that it is said", func() bool {
		ok, detail := v.Synced()
		return !ok && strings.Contains(detail, "waiting for pods; no answer about pods") && strings.Contains(detail, "forbidden")
	})
	if v.logs.Count(`resources [\"pods\"], verbs [list, watch]`) != 1 {
		t.Errorf("the log does not say once which rule is missing: %s", v.logs.String())
	}
	s.forbid(podsPath, false)
	v.waitSynced(t)
}

func TestForbiddenKindHoldsUpNobody(t *testing.T) {
	s := newAPIServer(t)
	s.serve(deploymentsPath, "Deployment")
	s.forbid(deploymentsPath, true)
	v := s.view(t, "deployments.apps")
	v.waitSynced(t)
	if _, detail := v.Synced(); !strings.Contains(detail, "deployments.apps is not watched") {
		t.Errorf("the detail is %q", detail)
	}
	if !v.Alive(metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web"}) {
		t.Error("an object that nobody can see is said to be dead")
	}
	seen := metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web", UID: "d1"}
	if v.Alive(seen) || !v.MayExist(seen) {
		t.Errorf("an object that was seen before: alive %v, may exist %v; want that it may", v.Alive(seen), v.MayExist(seen))
	}
	s.forbid(deploymentsPath, false)
	eventually(t, "that it is gone", func() bool { return !v.MayExist(seen) })
}

func TestKindThatComesLater(t *testing.T) {
	s := newAPIServer(t)
	v := s.view(t, "widgets.example.com")
	v.waitSynced(t)
	if _, _, watched := v.Object("widgets.example.com", "shop", "w"); watched {
		t.Error("what the server does not have is watched")
	}
	if v.MayExist(metric.Object{Resource: "widgets.example.com", Namespace: "shop", Name: "w", UID: "w0"}) {
		t.Error("an object of a kind that the server does not have may exist")
	}
	if v.logs.Count("objects of this kind are not watched") != 1 {
		t.Errorf("not said once: %s", v.logs.String())
	}
	if _, err := v.SelectObjects("widgets.example.com", "shop", labels.Everything()); err == nil {
		t.Error("picks objects that are not known")
	}
	s.serve("/apis/example.com/v1/widgets", "Widget")
	s.put("/apis/example.com/v1/widgets", aDeployment("shop", "w", "w1"))
	eventually(t, "the widget", func() bool { _, exists, _ := v.Object("widgets.example.com", "shop", "w"); return exists })
	if _, _, err := v.Canonical("widget"); err != nil {
		t.Error(err)
	}
}

func TestKindByAnotherName(t *testing.T) {
	s := newAPIServer(t)
	s.serve(deploymentsPath, "Deployment")
	v := s.view(t, "deployments")
	v.waitSynced(t)
	if _, detail := v.Synced(); detail != "deployments is not watched" || v.logs.Count("the canonical name is deployments.apps") != 1 {
		t.Errorf("the detail is %q, the log %s", detail, v.logs.String())
	}
}

// A Reflector waits for up to a minute after a refused connection, and here for longer than the test
// does; stopping the process does not wait.
func TestStopsWhileTheAPIServerIsAway(t *testing.T) {
	s := newAPIServer(t)
	s.stop()
	v := s.viewThat(t, func(v *View) { v.retryAfter(wait.Backoff{Duration: time.Hour}) }, "namespaces")
	eventually(t, "a failure", func() bool { return v.required[0].health.failureCount() > 0 })
}

func TestKindThatGoes(t *testing.T) {
	const path = "/apis/example.com/v1/widgets"
	s := newAPIServer(t)
	s.serve(path, "Widget")
	v := s.view(t, "widgets.example.com")
	v.waitSynced(t)
	s.mu.Lock()
	delete(s.served, path)
	s.mu.Unlock()
	s.cutWatches(true)
	eventually(t, "that it is not watched", func() bool { _, _, watched := v.Object("widgets.example.com", "a", "b"); return !watched })
	s.serve(path, "Widget")
	eventually(t, "that it is watched", func() bool { _, _, watched := v.Object("widgets.example.com", "a", "b"); return watched })
}

func TestAliveAndMatching(t *testing.T) {
	s := newAPIServer(t)
	s.serve(deploymentsPath, "Deployment")
	s.put(podsPath, labelled(aPod("shop", "web-1", "u1", "10.0.0.1"), "app", "web"))
	s.put(podsPath, labelled(aPod("other", "web-1", "u2", "10.0.0.2"), "app", "web"))
	s.put(podsPath, labelled(finished(aPod("shop", "old", "u3", "10.0.0.3")), "app", "web"))
	s.put(deploymentsPath, aDeployment("shop", "web", "d1"))
	v := s.view(t, "deployments.apps")
	v.waitSynced(t)
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	tier := labels.SelectorFromSet(labels.Set{"tier": "web"})
	for _, c := range []struct {
		what           string
		object         metric.Object
		selector       labels.Selector
		alive, matches bool
	}{
		{"a pod", metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"}, web, true, true},
		{"a pod whose UID nobody told", metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}, web, false, false},
		{"a pod of that name before", metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u0"}, web, false, false},
		{"a pod with other labels", metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"}, tier, true, false},
		{"a pod of another namespace", metric.Object{Resource: "pods", Namespace: "other", Name: "web-1", UID: "u2"}, web, true, false},
		{"a finished pod", metric.Object{Resource: "pods", Namespace: "shop", Name: "old", UID: "u3"}, web, false, false},
		{"no pod", metric.Object{Resource: "pods", Namespace: "shop", Name: "none"}, labels.Everything(), false, false},
		{"a deployment", metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web", UID: "d1"}, tier, true, true},
		{"a deployment of that name before", metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web", UID: "d0"}, tier, false, false},
		{"a deployment of a time when nobody watched them", metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web"}, tier, false, false},
		{"no deployment", metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "none"}, tier, false, false},
	} {
		if alive := v.Alive(c.object); alive != c.alive {
			t.Errorf("%s: alive %v", c.what, alive)
		}
		match, err := v.SelectObjects(c.object.Resource, "shop", c.selector)
		must(t, err)
		if matches := match.Match(c.object); matches != c.matches {
			t.Errorf("%s: matches %v", c.what, matches)
		}
		if match.List == nil || c.selector.Empty() {
			continue
		}
		all, n, ok := match.List(1)
		if !ok {
			t.Errorf("%s: not listed", c.what)
			continue
		}
		if list := slices.Collect(all); len(list) != n || slices.Contains(list, c.object) != c.matches {
			t.Errorf("%s: listed are %v", c.what, list)
		}
	}
	for _, o := range []metric.Object{{}, {Namespace: "shop"}, {Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "a"}} {
		if !v.Alive(o) {
			t.Errorf("%s is not watched, so nobody can say that it is dead", o)
		}
	}
	if v.Alive(metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "a", UID: "i1"}) {
		t.Error("an object of a time when its kind was watched stands beside the same one without UID")
	}
	if _, err := v.SelectObjects("ingresses.networking.k8s.io", "shop", web); err == nil || !strings.Contains(err.Error(), "object-kinds") {
		t.Errorf("Matching of what is not watched: %v", err)
	}
}

func TestEventsOverHTTP(t *testing.T) {
	s := newAPIServer(t)
	v := s.view(t)
	v.waitSynced(t)
	on := metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "u1"}
	v.Event(on, "MetricRefused", "x", "no slot for x")
	v.Event(on, "MetricRefused", "x", "no slot for x")
	s.put(podsPath, aPod("shop", "web-2", "u2"))
	eventually(t, "web-2", func() bool { return v.PodWithUID("u2") != nil })
	v.Event(metric.Object{Resource: "nowheres", Name: "x"}, "Reason", "", "of what nobody knows")
	eventually(t, "two requests", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.events) == 2 })
	s.mu.Lock()
	first, again := s.events[0], s.events[1]
	s.mu.Unlock()
	want := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	if first.InvolvedObject != want || first.Reason != "MetricRefused" || first.Message != "no slot for x" ||
		first.Type != corev1.EventTypeWarning || first.Source.Component != "sluice" || first.Namespace != "shop" {
		t.Errorf("the Event is %+v", first)
	}
	if again.Count != 2 {
		t.Errorf("the second is counted %d, want the same Event with count 2", again.Count)
	}
	v.Event(metric.Object{Resource: "pods", Namespace: "shop", Name: "web-2"}, "MetricRefused", "x", "no slot for x")
	eventually(t, "a third", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.events) == 3 })
	if uid := s.events[2].InvolvedObject.UID; uid != "u2" {
		t.Errorf("the UID is %q, want that of web-2", uid)
	}
	if dropped := v.View.events.dropped.Load(); dropped != 1 {
		t.Errorf("%d dropped, want that of an unknown resource", dropped)
	}
}

func TestEventsNeverBlock(t *testing.T) {
	v, err := NewView(newAPIServer(t).client(t, &Config{}), Config{}, quiet) // not running, so the queue stays full
	must(t, err)
	v.resources.current.Store(newResourceNames(resourcesOf(discovered.groups, discovered.lists, nil, nil)))
	const namespaces = eventQueueSize / eventsPerNamespace
	for i := range namespaces + 1 { // one more than the queue holds
		on := metric.Object{Resource: "pods", Namespace: fmt.Sprint("ns", i), Name: "b"}
		if i%2 == 1 {
			on = metric.Object{Resource: "namespaces", Name: on.Namespace}
		}
		for range eventsPerNamespace + 3 { // each namespace exceeds its share
			v.Event(on, "Reason", "", strings.Repeat("x", 2000))
		}
	}
	if dropped := v.events.dropped.Load(); dropped != 3*namespaces+eventsPerNamespace+3 {
		t.Errorf("%d dropped, want %d", dropped, 3*namespaces+eventsPerNamespace+3)
	}
	if len(v.events.queue) != eventQueueSize {
		t.Errorf("%d wait, want %d", len(v.events.queue), eventQueueSize)
	}
	for range len(v.events.queue) {
		v.events.dequeued(<-v.events.queue)
	}
	if len(v.events.waiting) != 0 {
		t.Errorf("an empty queue, but %v wait", v.events.waiting)
	}
}

func TestBadLimitRangeOverHTTP(t *testing.T) {
	s := newAPIServer(t)
	v := s.view(t)
	v.waitSynced(t)
	s.put(limitsPath, aLimitRange("shop", "good", podItem("-1", "10")))
	eventually(t, "an Event", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.events) == 1 })
	s.mu.Lock()
	event := s.events[0]
	s.mu.Unlock()
	if event.InvolvedObject.Kind != "LimitRange" || !strings.Contains(event.Message, "sluice.dev/metrics") {
		t.Errorf("the Event is %+v", event)
	}
	s.put(limitsPath, aLimitRange("shop", "strange", corev1.LimitRangeItem{Type: "sluice.dev/Foo"},
		corev1.LimitRangeItem{Type: podType, Max: corev1.ResourceList{"sluice.dev/foo": {}}}))
	eventually(t, "another", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.events) == 2 })
	s.mu.Lock()
	event = s.events[1]
	s.mu.Unlock()
	for _, part := range []string{"type sluice.dev/Foo is unknown", "sluice.dev/foo under type sluice.dev/Pod is unknown"} {
		if event.Reason != ReasonBadLimit || !strings.Contains(event.Message, part) || v.logs.Count(part) != 1 {
			t.Errorf("the Event is %+v and the log %s, want %q in both", event, v.logs.String(), part)
		}
	}
	before := s.listed(limitsPath)
	s.cutWatches(true)
	eventually(t, "a list read anew", func() bool { return s.listed(limitsPath) > before })
	if got := v.Limits("shop").Pod; got != (metric.Limit{Metrics: metric.Unset, Series: 10}) {
		t.Errorf("the limit is %+v", got)
	}
	if n := v.logs.Count("a LimitRange is invalid"); n != 2 {
		t.Errorf("logged %d times, want once for each LimitRange", n)
	}
}
