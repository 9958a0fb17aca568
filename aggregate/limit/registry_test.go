package limit

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// ward is a cluster and a table for a registry. It removes the series that the registry asks it to
// remove.
type ward struct {
	mu       sync.Mutex // guards idle, removed, readmits and held
	limits   map[string]metric.Limits
	asked    map[string]bool // "namespace/resource/name"
	idle     map[string]time.Duration
	removed  []string
	events   []string
	named    []string // by events
	retries  int
	held     map[string]int // series by "object name"
	dead     map[metric.Object]bool
	registry *Registry
}

func newWard(c Config) *ward {
	w := &ward{limits: map[string]metric.Limits{}, asked: map[string]bool{}, idle: map[string]time.Duration{}, held: map[string]int{}}
	w.registry = New(c, w, w, w, slog.New(slog.NewTextHandler(io.Discard, nil)))
	w.registry.Enforce()
	w.registry.runJobs()
	w.retries = 0
	return w
}

// starting is a ward whose cluster is not synced yet.
func starting(c Config) *ward {
	w := newWard(c)
	w.registry.enforcing.Store(false)
	return w
}

func (w *ward) Limits(namespace string) metric.Limits {
	if l, ok := w.limits[namespace]; ok {
		return l
	}
	return metric.UnsetLimits()
}
func (w *ward) NamedByAutoscaler(namespace, resource, name string) bool {
	return w.asked[namespace+"/"+resource+"/"+name]
}
func (w *ward) Alive(o metric.Object) bool                            { return !w.dead[o] }
func (w *ward) Shed(o metric.Object, name string) int                 { return w.remove("shed", o, name) }
func (w *ward) End(o metric.Object, name string) int                  { return w.remove("end", o, name) }
func (w *ward) ShedSeries(metric.Object, string, []metric.Labels) int { return 0 }
func (w *ward) AppendBirths(dst []metric.Birth, _ metric.Object, _ string) []metric.Birth {
	return dst
}
func (w *ward) remove(how string, o metric.Object, name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = append(w.removed, how+" "+name)
	key := o.String() + o.UID + " " + name
	n := w.held[key]
	delete(w.held, key)
	for range n {
		w.registry.Leave(&o, name, metric.Labels{})
	}
	return n
}
func (w *ward) Idle(o metric.Object, name string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle[name]
}
func (w *ward) RetryRejected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retries++
}
func (w *ward) Event(o metric.Object, reason, name, message string) {
	w.named = append(w.named, name)
	w.events = append(w.events, reason+" on "+o.String()+": "+message)
}

func (w *ward) push(o metric.Object, name string) bool {
	w.mu.Lock()
	born := uint32(len(w.held) + 1)
	w.mu.Unlock()
	if w.registry.Admit(&o, name, metric.Labels{}, born) != metric.Applied {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[o.String()+o.UID+" "+name]++
	return true
}

// fill pushes metrics m0, m1 and so on.
func (w *ward) fill(o metric.Object, n int) {
	for i := range n {
		w.push(o, fmt.Sprint("m", i))
	}
}

// limitPods gives the namespace shop a LimitRange about pods.
func (w *ward) limitPods(metrics, series int) {
	limits := metric.UnsetLimits()
	limits.Pod = metric.Limit{Metrics: metrics, Series: series}
	w.limits["shop"] = limits
}

func (w *ward) wantRemoved(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w.removed, want) {
		t.Errorf("removed %q, want %q", w.removed, want)
	}
}

func pod(name string) metric.Object {
	return metric.Object{Resource: "pods", Namespace: "shop", Name: name, UID: "uid-" + name}
}

func small() Config {
	return Config{PodMetrics: 5, PodSeries: 8, NamespaceMetrics: 3, NamespaceSeries: 4}
}

func TestSixthMetricIsRefused(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	for i := range 5 {
		if !w.push(o, fmt.Sprint("m", i)) {
			t.Fatalf("metric %d rejected", i)
		}
	}
	for range 3 {
		if w.push(o, "sixth") {
			t.Fatal("a sixth metric was admitted")
		}
	}
	w.registry.runJobs()
	if len(w.events) != 1 || !strings.Contains(w.events[0], `metric "sixth" is rejected`) || !strings.Contains(w.events[0], "m0, m1, m2, m3, m4") {
		t.Errorf("events: %q, want one that names the metrics with slots", w.events)
	}
	if !w.push(pod("web-2"), "sixth") {
		t.Error("another pod has slots of its own")
	}
	if !w.push(o, "m1") {
		t.Error("a second series of an admitted metric was rejected")
	}
	if why := w.registry.Explain(o, "sixth"); !strings.Contains(why, "5 metrics") {
		t.Errorf("explained as %q", why)
	}
	if why := w.registry.Explain(o, "m1"); why != "" {
		t.Errorf("m1 is not rejected, but explained as %q", why)
	}
	for i := range 8 {
		w.push(metric.Object{}, fmt.Sprint("wide", i))
	}
	if why := w.registry.Explain(metric.Object{}, "wide8"); why != "" {
		t.Errorf("an object outside of namespaces has no limit, but is explained as %q", why)
	}
}

func TestSeriesOfAPodAreLimited(t *testing.T) {
	w := newWard(small())
	for i := range 8 {
		if !w.push(pod("web-1"), fmt.Sprint("m", i%2)) {
			t.Fatalf("series %d rejected", i)
		}
	}
	if w.push(pod("web-1"), "m0") || w.push(pod("web-1"), "m7") {
		t.Error("a ninth series was admitted")
	}
	o := pod("web-1")
	w.registry.Leave(&o, "m0", metric.Labels{})
	if !w.push(pod("web-1"), "m7") {
		t.Error("the slot of a removed series is not free")
	}
}

func TestAskedMetricTakesTheNewestUnaskedSlot(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	w.fill(o, 5)
	w.asked["shop/pods/m4"] = true // the newest, but named by an autoscaler
	w.asked["shop/pods/scaling"] = true
	if !w.push(o, "scaling") {
		t.Fatal("the metric that an autoscaler names was rejected")
	}
	w.registry.runJobs()
	w.wantRemoved(t, "shed m3") // the newest that no autoscaler names
	if w.push(o, "m3") {
		t.Error("an evicted metric evicted another")
	}
	w.asked["shop/deployments.apps/other"] = true
	if w.push(o, "other") {
		t.Error("a metric named for another resource counts for pods")
	}
}

func TestOfEqualAgeTheLastSlotIsEvicted(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	w.asked["shop/pods/scaling"] = true
	for _, name := range []string{"c", "a", "e", "b", "d", "scaling"} {
		if w.registry.Admit(&o, name, metric.Labels{}, 1) != metric.Applied {
			t.Fatalf("%s was rejected", name)
		}
	}
	w.registry.runJobs()
	w.wantRemoved(t, "shed d")
}

func TestNamedMetricDoesNotEvictNamedOnes(t *testing.T) {
	w := newWard(small())
	for i := range 6 {
		w.asked[fmt.Sprint("shop/pods/m", i)] = true
		if got := w.push(pod("web-1"), fmt.Sprint("m", i)); got != (i < 5) {
			t.Errorf("metric %d: admitted %v", i, got)
		}
	}
}

func TestSeriesOfANamedMetricEvictsUnnamedMetrics(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	for range 4 {
		w.push(o, "a")
		w.push(o, "b")
	}
	w.asked["shop/pods/a"] = true
	if !w.push(o, "a") {
		t.Fatal("rejected")
	}
	w.registry.runJobs()
	w.wantRemoved(t, "shed b")
}

// A metric whose evicted series are not removed yet is not counted twice when it returns.
func TestEvictedMetricReturnsOnlyOnceItsSeriesAreRemoved(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	w.fill(o, 5)
	w.limitPods(4, metric.Unset)
	w.asked["shop/pods/m0"], w.asked["shop/pods/new"] = true, true
	w.push(o, "new") // m4 and m3 are evicted, but not removed yet
	if w.push(o, "m4") {
		t.Error("a metric was admitted while its old series were still there")
	}
	w.registry.runJobs()
	w.registry.withQuota(quotaKeyOf(&o), func(s *quota) {
		if s.metrics != 4 || s.series != 4 || len(s.slots) != 4 {
			t.Errorf("%d metrics, %d series, %d slots; want 4 of each", s.metrics, s.series, len(s.slots))
		}
	})
}

func TestZeroIsALimit(t *testing.T) {
	w := newWard(small())
	w.asked["shop/pods/m"] = true
	w.limitPods(0, metric.Unset)
	if w.push(pod("web-1"), "m") {
		t.Error("a limit of no metrics admitted one")
	}
}

// Externals and objects other than pods share the namespace's limit, whatever their resource. A
// Namespace object counts to its own namespace. Objects outside of any namespace are not limited.
func TestNamespaceQuota(t *testing.T) {
	w := newWard(small())
	for i, o := range []metric.Object{
		{Namespace: "shop"},
		{Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "main"},
		{Resource: "namespaces", Name: "shop"},
	} {
		if !w.push(o, fmt.Sprint("m", i)) {
			t.Fatalf("%v rejected", o)
		}
	}
	if w.push(metric.Object{Namespace: "shop"}, "m3") {
		t.Error("a fourth metric was admitted")
	}
	if !w.push(metric.Object{Resource: "services", Namespace: "shop", Name: "web"}, "m1") {
		t.Error("another object with a metric of the same name takes a series, not a metric")
	}
	if w.push(metric.Object{Resource: "services", Namespace: "shop", Name: "api"}, "m1") {
		t.Error("a fifth series was admitted")
	}
	if !w.push(pod("web-1"), "m3") || !w.push(metric.Object{Namespace: "other"}, "m3") {
		t.Error("pods and other namespaces have limits of their own")
	}
	for i := range 200 {
		if !w.push(metric.Object{}, fmt.Sprint("m", i)) || !w.push(metric.Object{Resource: "nodes", Name: "a"}, fmt.Sprint("m", i)) {
			t.Fatal("an object outside of namespaces was limited")
		}
	}
}

// An object may be deleted while a sample is about to create its first series. ObjectGone finds
// nothing to remove then, and a series admitted afterwards would stay for ever.
func TestDeadObjectGetsNoSeries(t *testing.T) {
	w := newWard(small())
	o, node := pod("web-1"), metric.Object{Resource: "nodes", Name: "a", UID: "n"}
	w.dead = map[metric.Object]bool{o: true, node: true}
	w.registry.ObjectGone(o)
	for _, object := range []metric.Object{o, node} {
		if r := w.registry.Admit(&object, "hits", metric.Labels{}, 1); r != metric.Identity {
			t.Errorf("%s: %v, want %v", object, r, metric.Identity)
		}
	}
	if n := w.scopes(); n != 0 {
		t.Errorf("%d quotas are left", n)
	}
}

func (w *ward) scopes() int { return w.registry.scopes() }

func (r *Registry) scopes() (n int) {
	for i := range r.shards {
		for range r.shards[i].all() {
			n++
		}
	}
	return n
}

// Rejections are forgotten when their namespace is deleted, and once the metric is admitted.
func TestRejectionsAreForgotten(t *testing.T) {
	c := small()
	c.NamespaceMetrics = 1
	w := newWard(c)
	shop, other := metric.Object{Namespace: "shop"}, metric.Object{Namespace: "other"}
	for _, o := range []metric.Object{shop, other} {
		w.push(o, "m0")
		if w.push(o, "m1") {
			t.Fatal("a second metric was admitted")
		}
		w.remove("end", o, "m0")
	}
	w.push(shop, "m1")
	w.remove("end", shop, "m1")
	w.registry.ObjectGone(metric.Object{Resource: "namespaces", Name: "other", UID: "1"})
	if n := w.scopes(); n != 0 {
		t.Errorf("%d quotas are left", n)
	}
}

func TestRestoredSlotsKeepTheirAge(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	for i, born := range []uint32{50, 10, 40, 20, 30, 60} { // more than the limit: restored series stay
		w.registry.Enter(&o, fmt.Sprint("m", i), metric.Labels{}, born)
		w.held[o.String()+o.UID+" "+fmt.Sprint("m", i)]++
	}
	w.registry.Enforce()
	w.registry.runJobs()
	w.registry.runJobs()
	w.wantRemoved(t, "shed m5") // the one that came last before the restart
}

// The counts are right after any order of events, and a metric is found as quickly among many as
// among few.
func TestCountsUnderConcurrency(t *testing.T) {
	c := small()
	c.NamespaceMetrics, c.NamespaceSeries = 50, 1000
	w := newWard(c)
	var workers sync.WaitGroup
	for g := range 4 {
		workers.Go(func() {
			o := metric.Object{Namespace: "shop"}
			for i := range 3000 {
				name := fmt.Sprint("m", (i*7+g)%40)
				if w.registry.Admit(&o, name, metric.Labels{}, uint32(i)) == metric.Applied {
					w.registry.Leave(&o, name, metric.Labels{})
				}
			}
		})
	}
	workers.Wait()
	w.registry.withQuota(quotaKey{namespace: "shop"}, func(s *quota) {
		if s.metrics != 0 || s.series != 0 || len(s.slots) != 0 || s.nameIndex() != nil {
			t.Errorf("%d metrics, %d series, %d slots left", s.metrics, s.series, len(s.slots))
		}
	})
}

func TestConfigFaults(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{PodMetrics: -1, PodSeries: Max + 1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "PodMetrics is -1") || !strings.Contains(err.Error(), "PodSeries is ") {
		t.Error(err)
	}
}

func TestIgnoredPatterns(t *testing.T) {
	p, err := ParsePatterns([]string{"datadog.dogstatsd.client.*", "a*b*c", "plain"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"datadog.dogstatsd.client.metrics": true, "datadog.dogstatsd.clients": false, "plain": true, "plainer": false,
		"abc": true, "axbxc": true, "ac": false, "acb": false, "abcc": true, "abcb": false,
	} {
		if got := p.Match(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	if _, err := ParsePatterns([]string{"*", ""}); err == nil {
		t.Error("a pattern that ignores everything was accepted")
	}
}
