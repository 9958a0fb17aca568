package limit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

func TestChangedLimits(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	w.fill(o, 5)
	w.push(o, "m5")
	w.limitPods(6, metric.Unset)
	w.registry.LimitsChanged("shop")
	w.registry.runJobs()
	if w.retries != 1 || !w.push(o, "m5") {
		t.Fatal("a raised limit admits nothing")
	}
	w.asked["shop/pods/m5"] = true
	w.limitPods(2, metric.Unset)
	w.registry.LimitsChanged("shop")
	w.registry.runJobs()
	w.registry.runJobs()
	w.wantRemoved(t, "shed m4", "shed m3", "shed m2", "shed m1")
}

// Events about evicted metrics show no secret that a client sent as a name, and no more than the beginning of a long name.
func TestEvictionsShowNoSecrets(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	long := strings.Repeat("x", metric.MaxNameLength)
	w.fill(o, 3)
	w.push(o, "login?password=hunter2")
	w.push(o, long)
	w.asked["shop/pods/login?token=hunter3"] = true
	if !w.push(o, "login?token=hunter3") { // takes the slot of the long one
		t.Fatal("the metric of an autoscaler was rejected")
	}
	w.registry.runJobs()
	w.limitPods(4, metric.Unset)
	w.registry.LimitsChanged("shop")
	w.registry.runJobs()
	w.registry.runJobs()
	w.wantRemoved(t, "shed "+long, "shed login?password=hunter2")
	for _, text := range append(w.named, w.events...) {
		if strings.Contains(text, "hunter") || len(text) > metric.MaxNameLength {
			t.Errorf("an Event shows %s", text)
		}
	}
	if len(w.events) != 2 {
		t.Errorf("Events %q", w.events)
	}
}

func TestLoweredSeriesLimitKeepsTheNamedMetric(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	for range 6 {
		w.push(o, "scaling")
	}
	w.push(o, "other")
	w.asked["shop/pods/scaling"] = true
	w.limitPods(metric.Unset, 2)
	w.registry.LimitsChanged("shop")
	w.registry.runJobs()
	w.registry.runJobs()
	w.wantRemoved(t, "shed other")
	if w.push(o, "scaling") {
		t.Error("one more series was admitted beyond the limit")
	}
}

func TestDeletedObjectIsForgotten(t *testing.T) {
	w := newWard(small())
	old, ingress := pod("web-1"), metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "main", UID: "1"}
	w.fill(old, 7)
	w.push(ingress, "hits")
	w.push(metric.Object{Namespace: "shop"}, "hits")
	young := old
	young.UID = "another"
	if !w.push(young, "x") {
		t.Error("a later pod of the same name was held to the slots of the previous one")
	}
	w.registry.ObjectGone(old)
	w.registry.ObjectGone(ingress)
	w.registry.runJobs()
	if len(w.removed) != 6 {
		t.Errorf("removed %q", w.removed)
	}
	scopes := 0
	for i := range w.registry.shards {
		for s := range w.registry.shards[i].all() {
			scopes++
			if s.key == quotaKeyOf(&old) {
				t.Errorf("the quota of a deleted pod is still there: %+v", s)
			}
		}
	}
	if scopes != 2 {
		t.Errorf("%d quotas left, want the young pod's and the namespace's", scopes)
	}
	if len(w.held) != 2 {
		t.Errorf("left: %v, want the young pod's and the external", w.held)
	}
}

// The table remembers rejections, so a metric that keeps being rejected asks once. It has to ask
// again when a slot turns idle later.
func TestRejectedMetricsAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(small())
		o := pod("web-1")
		w.fill(o, 5)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.registry.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.retries != 0 {
			t.Errorf("%d retries although nothing was rejected", w.retries)
		}
		w.push(o, "new")
		asked := w.retries
		for range 3 * 360 { // the samples that the table lets through: the first after each RetryRejected
			time.Sleep(10 * time.Second)
			synctest.Wait()
			w.mu.Lock()
			w.idle["m1"] += 10 * time.Second
			again := w.retries > asked
			asked = w.retries
			w.mu.Unlock()
			if again {
				w.push(o, "new")
			}
		}
		if !slices.Contains(w.removed, "shed m1") || w.held[o.String()+o.UID+" new"] == 0 {
			t.Errorf("removed %q, held %v: the idle metric was not evicted", w.removed, w.held)
		}
		if asked > 3*60+1 {
			t.Errorf("%d retries in three hours", asked)
		}
		stop()
		<-done
	})
}

// Nothing is evicted before the cluster is synced: the autoscalers may not have been read yet.
func TestNothingIsEvictedBeforeTheClusterIsSynced(t *testing.T) {
	w := starting(small())
	o := pod("web-1")
	for i := range 5 {
		w.registry.Enter(&o, fmt.Sprint("m", i), metric.Labels{}, uint32(i+1))
		w.held[o.String()+o.UID+" "+fmt.Sprint("m", i)]++
	}
	w.limitPods(4, 100)
	w.registry.LimitsChanged("shop")
	w.asked["shop/pods/first"] = true
	if w.push(o, "first") || w.push(o, "other") {
		t.Error("there is no slot")
	}
	w.registry.runJobs()
	if len(w.removed) != 0 || len(w.events) != 0 {
		t.Errorf("removed %q, told %q", w.removed, w.events)
	}
	w.asked["shop/pods/m4"] = true // that autoscaler was read last
	w.registry.Enforce()
	w.registry.runJobs()
	w.registry.runJobs()
	if !slices.Equal(w.removed, []string{"shed m3"}) || w.retries == 0 {
		t.Errorf("removed %q, %d retries, want the newest that no autoscaler names", w.removed, w.retries)
	}
	if !w.push(o, "first") {
		t.Error("the metric that an autoscaler names was not admitted")
	}
}

// News of a namespace's end may come when the next one of the name has series already: it ends those of the Namespace
// that is gone, and its rejections.
func TestDeletedNamespaceLosesItsRejections(t *testing.T) {
	w := newWard(small())
	gone := metric.Object{Resource: "namespaces", Name: "shop", UID: "1"}
	w.push(metric.Object{Namespace: "shop"}, "queue")
	w.push(metric.Object{Resource: "namespaces", Name: "shop", UID: "2"}, "backlog")
	w.push(gone, "backlog")
	w.push(metric.Object{Namespace: "shop"}, "m1")
	w.push(metric.Object{Namespace: "shop"}, "rejected")
	w.registry.runJobs()
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "MetricRefused on namespaces/shop: ") {
		t.Errorf("events: %q, want one on the namespace, because people do not look at an external", w.events)
	}
	w.registry.ObjectGone(gone)
	w.registry.runJobs()
	if len(w.held) != 3 || w.held[gone.String()+gone.UID+" backlog"] != 0 {
		t.Errorf("left: %v, want all but that of the former Namespace", w.held)
	}
	w.registry.withQuota(quotaKey{namespace: "shop"}, func(s *quota) {
		if s.series != 3 || len(s.rejected()) != 0 {
			t.Errorf("the registry counts %d series and holds the rejections %v", s.series, s.rejected())
		}
	})
}

func TestIdleMetricIsEvictedAfterARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(small())
		o := pod("web-1")
		w.fill(o, 5)
		w.idle["m1"], w.idle["m2"] = 2*time.Hour, 2*time.Hour
		w.asked["shop/pods/m2"] = true
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.registry.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(w.removed) != 0 {
			t.Fatalf("removed %q although nothing was rejected", w.removed)
		}
		w.push(o, "new")
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantRemoved(t, "shed m1") // the idle metric that no autoscaler names
		if !w.push(o, "new") {
			t.Error("the slot is not free")
		}
		stop()
		<-done
	})
}

// One rejection takes one slot, that of the newest idle metric, however many are idle.
func TestOneRejectionTakesOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(small())
		o := pod("web-1")
		w.fill(o, 5)
		for i := range 5 {
			w.idle[fmt.Sprint("m", i)] = 2 * time.Hour
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.registry.Run(ctx) }()
		for range 3 {
			w.push(o, "new")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantRemoved(t, "shed m4")
		if !w.push(o, "new") {
			t.Error("the slot is not free")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(w.removed) != 1 {
			t.Errorf("removed %q, want one", w.removed)
		}
		stop()
		<-done
	})
}

// renewing is a ward whose metrics lose their slots, and take others, while it is asked how idle
// they are.
type renewing struct{ *ward }

func (r renewing) Idle(o metric.Object, name string) time.Duration {
	r.registry.Leave(&o, name, metric.Labels{})
	r.registry.Admit(&o, name, metric.Labels{}, 99)
	return r.ward.Idle(o, name)
}

// A slot that a metric took anew, after the idle ones were looked for, is not evicted.
func TestASlotTakenAnewIsNotIdle(t *testing.T) {
	w := newWard(small())
	o := pod("web-1")
	w.fill(o, 5)
	w.idle["m1"] = 2 * time.Hour
	w.push(o, "new")
	w.registry.table = renewing{w}
	if w.registry.evictIdle(); len(w.removed) != 0 {
		t.Errorf("removed %q, whose slot is new", w.removed)
	}
}
