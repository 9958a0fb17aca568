package limit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// plainSlot is a slot without any economy of memory, to compare with.
type plainSlot struct {
	name    string
	objects map[metric.Object]int
	leaving bool
}

func (p plainSlot) series() (n int) {
	for _, object := range p.objects {
		n += object
	}
	return n
}

// Quotas with few and with many slots, of one and of several objects, hold exactly the series that
// entered and did not leave.
func TestQuotaAgainstPlainSlots(t *testing.T) {
	shop := metric.Object{Namespace: "shop"}
	for _, c := range []struct {
		of      []metric.Object
		names   int
		entered int // percent
	}{
		{[]metric.Object{pod("web-1")}, 6, 50}, {[]metric.Object{pod("web-1")}, 60, 55}, {[]metric.Object{pod("web-1")}, 60, 45},
		{[]metric.Object{shop, {Resource: "services", Namespace: "shop", Name: "a"}, {Resource: "namespaces", Name: "shop"}}, 30, 52},
		{[]metric.Object{{Resource: "pods", Namespace: "shop", UID: "of no name"}, shop}, 4, 50},
	} {
		random := rand.New(rand.NewPCG(3, uint64(c.names)))
		s := &quota{key: quotaKeyOf(&c.of[0])}
		var plain []plainSlot
		for step := range 8_000 {
			name, o := fmt.Sprint("m", random.IntN(c.names)), c.of[random.IntN(len(c.of))]
			at := slices.IndexFunc(plain, func(p plainSlot) bool { return p.name == name })
			entered := c.entered
			if step/2000%4 == 3 {
				entered = 5 // nearly all leave
			}
			switch roll := random.IntN(100); {
			case roll < entered:
				s.enterSeries(&o, name, uint32(step))
				if at < 0 {
					at = len(plain)
					plain = append(plain, plainSlot{name: name, objects: map[metric.Object]int{}})
				}
				plain[at].objects[o]++
			case roll == 99:
				if at >= 0 && !plain[at].leaving {
					s.evict(s.slot(name))
					plain[at].leaving = true
				}
			default:
				s.leaveSeries(&o, name)
				if at >= 0 && plain[at].objects[o] > 0 {
					plain[at].objects[o]--
				}
				plain = slices.DeleteFunc(plain, func(p plainSlot) bool { return p.series() == 0 })
			}
			compareScope(t, s, plain)
			if t.Failed() {
				t.Fatalf("after step %d", step)
			}
		}
	}
}

func compareScope(t *testing.T, s *quota, plain []plainSlot) {
	var metrics, series uint32
	i := 0
	for slot := range s.taken() {
		if i >= len(plain) || slot.name != plain[i].name || int(slot.series) != plain[i].series() || slot.evicted != plain[i].leaving || s.slot(slot.name) != slot {
			t.Errorf("slot %d is %+v of %d", i, slot, len(plain))
			return
		}
		for _, o := range slot.objects(s.key) {
			if plain[i].objects[o] == 0 {
				t.Errorf("%s is not of %v", slot.name, o)
			}
		}
		if !slot.evicted {
			metrics, series = metrics+1, series+slot.series
		}
		i++
	}
	if i != len(plain) || s.metrics != metrics || s.series != series || s.empty() != (i == 0) || i > 0 && len(s.slots) > 2*i+1 && s.nameIndex() != nil {
		t.Errorf("%d slots of %d, %d metrics and %d series, want %d and %d; in %d places", i, len(plain), s.metrics, s.series, metrics, series, len(s.slots))
	}
}

// Quotas whose keys have the same hash are distinguished.
func TestQuotasOfOneHash(t *testing.T) {
	s := shard{quotas: map[uint64]*quota{}}
	var all []*quota
	for _, name := range []string{"a", "b", "c"} {
		q := &quota{key: quotaKey{namespace: name}}
		all = append(all, q)
		s.put(7, q)
	}
	for _, at := range []int{1, 0, 0} {
		gone := all[at]
		all = slices.Delete(all, at, at+1)
		s.drop(7, gone)
		if s.find(7, gone.key) != nil {
			t.Errorf("%v is still there", gone.key)
		}
		for _, q := range all {
			if s.find(7, q.key) != q {
				t.Errorf("%v is not found", q.key)
			}
		}
	}
	if len(s.quotas) != 0 {
		t.Errorf("left: %v", s.quotas)
	}
}

func TestUsesAreListedInPages(t *testing.T) {
	w := newWard(Config{PodMetrics: 2, PodSeries: 3, NamespaceMetrics: 4, NamespaceSeries: 5})
	w.limits["shop"] = metric.Limits{Pod: metric.Limit{Metrics: 1, Series: metric.Unset}, Namespace: metric.Limit{Metrics: metric.Unset, Series: 9}}
	admit := func(o metric.Object, name string) {
		w.registry.Admit(&o, name, metric.Labels{}, 1)
	}
	pod := func(namespace, name string) metric.Object {
		return metric.Object{Resource: "pods", Namespace: namespace, Name: name, UID: "u-" + name}
	}
	admit(pod("shop", "web-2"), "a")
	admit(pod("shop", "web-1"), "a")
	admit(pod("shop", "web-1"), "b")
	admit(pod("shop", "web-1"), "c")
	admit(metric.Object{Namespace: "shop"}, "q")
	admit(metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web"}, "d")
	admit(pod("bank", "p"), "a")
	admit(metric.Object{}, "outside of namespaces")
	want := `pods/p in bank 1/2 1/3
namespaces/shop 2/4 2/9
pods/web-1 in shop 1/1 1/3 rejected 2
pods/web-2 in shop 1/1 1/3
`
	for limit := 1; limit < 6; limit++ {
		if got := w.uses(t, Part{Most: limit}); got != want {
			t.Errorf("pages of %d:\n%s, want\n%s", limit, got, want)
		}
	}
	if got := w.uses(t, Part{Namespace: "shop", Name: "web-2", Most: 3}); got != "pods/web-2 in shop 1/1 1/3\n" {
		t.Errorf("one pod: %s", got)
	}
	if got := w.uses(t, Part{Namespace: "nowhere", Most: 3}); got != "" {
		t.Errorf("nowhere: %s", got)
	}
}

// The page of limits begins with those that are nearest to theirs.
func TestFullestUsesAreListedFirst(t *testing.T) {
	w := newWard(Config{PodMetrics: 2, PodSeries: 10, NamespaceMetrics: 4, NamespaceSeries: 10})
	w.limits["bank"] = metric.Limits{Pod: metric.Limit{Metrics: 20, Series: metric.Unset}, Namespace: metric.Limit{Metrics: metric.Unset, Series: metric.Unset}}
	for _, of := range []string{"shop/half a", "shop/full a b", "shop/over a b c d", "bank/little a b"} {
		words := strings.Fields(of)
		namespace, name, _ := strings.Cut(words[0], "/")
		for _, word := range words[1:] {
			w.registry.Admit(&metric.Object{Resource: "pods", Namespace: namespace, Name: name, UID: name}, word, metric.Labels{}, 1)
		}
	}
	w.registry.Admit(&metric.Object{Namespace: "shop"}, "q", metric.Labels{}, 1)
	want := "over full half shop little"
	for limit := 1; limit <= 5; limit++ {
		uses, more := w.registry.Uses(Part{Fullest: true, Most: limit})
		var names []string
		for _, use := range uses {
			names = append(names, use.Object.Name)
		}
		if got := strings.Join(names, " "); !strings.HasPrefix(want+" ", got+" ") || len(uses) != limit || more != (limit < 5) {
			t.Errorf("%d of %q: %q, more: %v", limit, want, got, more)
		}
	}
}

// uses lists page by page.
func (w *ward) uses(t *testing.T, p Part) string {
	t.Helper()
	var b strings.Builder
	for range 100 {
		page, more := w.registry.Uses(p)
		if len(page) > p.Most {
			t.Fatalf("a page of %d", len(page))
		}
		for _, use := range page {
			fmt.Fprintf(&b, "%s %d/%d %d/%d", use.Object, use.Metrics, use.Limit.Metrics, use.Series, use.Limit.Series)
			if use.Rejected > 0 {
				fmt.Fprintf(&b, " rejected %d", use.Rejected)
			}
			b.WriteByte('\n')
			p.After = use.Object
		}
		if !more {
			return b.String()
		}
	}
	t.Fatal("the pages do not end")
	return ""
}

// The largest cluster has 150,000 pods with a few metrics each, so the bytes per metric and pod
// decide about memory.
func TestMemoryOfAPodsMetric(t *testing.T) {
	const pods = 10_000
	for _, c := range []struct {
		metrics int
		most    float64 // bytes
	}{{1, 240}, {4, 90}, {5, 80}} {
		objects := make([]metric.Object, pods)
		for i := range objects {
			objects[i] = metric.Object{Resource: "pods", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprintf("%036d", i)}
		}
		names := make([]string, c.metrics)
		for i := range names {
			names[i] = fmt.Sprint("requests.metric.", i)
		}
		before := heap()
		w := newWard(DefaultConfig())
		for _, name := range names {
			for i := range objects {
				if w.registry.Admit(&objects[i], name, metric.Labels{}, 1) != metric.Applied {
					t.Fatal("rejected")
				}
			}
		}
		each := float64(heap()-before) / float64(pods*c.metrics)
		t.Logf("%d metrics a pod: %.0f bytes a metric of a pod", c.metrics, each)
		if each > c.most {
			t.Errorf("%d metrics a pod: %.0f bytes a metric of a pod, want at most %.0f", c.metrics, each, c.most)
		}
		for i := range objects {
			for _, name := range names {
				w.registry.Leave(&objects[i], name, metric.Labels{})
			}
		}
		if n := w.scopes(); n != 0 {
			t.Errorf("%d quotas are left", n)
		}
		runtime.KeepAlive(objects)
		runtime.KeepAlive(w)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// With several replicas, a registry counts the series of all origins.
func TestMemoryOfASeriesOfSeveralOrigins(t *testing.T) {
	const pods, perPod = 5_000, 5
	c := DefaultConfig()
	each := func(origin string, others int) float64 {
		c.Origin = origin
		before := heap()
		w := newWard(c)
		var more []*Origin
		for i := range others {
			more = append(more, w.registry.Origin(fmt.Sprint("sluice-", i), w))
		}
		for i := range pods {
			o := metric.Object{Resource: "pods", Namespace: "shop", Name: "web", UID: "1"}
			o.Name = fmt.Sprint("web-", i)
			for m := range perPod {
				w.registry.Admit(&o, "requests", metric.NewLabels([]metric.Label{{Key: "code", Value: fmt.Sprint(m)}}), 1)
				for _, g := range more {
					g.Enter(&o, "requests", metric.NewLabels([]metric.Label{{Key: "code", Value: fmt.Sprint(m)}}), 1)
				}
			}
		}
		used := float64(heap()-before) / (pods * perPod)
		runtime.KeepAlive(w)
		return used
	}
	alone, one, three := each("", 0), each("sluice-a", 0), each("sluice-a", 2)
	t.Logf("alone %.0f bytes a series; with replicas %.0f, of three origins %.0f", alone, one, three)
	if three > alone+50 {
		t.Errorf("%.0f bytes a series with three origins, alone %.0f", three, alone)
	}
}
