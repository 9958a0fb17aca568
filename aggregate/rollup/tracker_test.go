package rollup

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// town is the cluster as a test sets it up.
type town struct {
	controllers map[string]metric.Workload // by pod
	owners      map[string]metric.Workload // by ReplicaSet
}

func (c *town) Workload(pod metric.Object) (metric.Workload, bool, bool) {
	controller, ok := c.controllers[pod.Name]
	controller, resolved := c.Owner(controller)
	return controller, resolved, ok
}

func (c *town) Owner(workload metric.Workload) (metric.Workload, bool) {
	if workload.Kind != "ReplicaSet" {
		return workload, true
	}
	if owner, known := c.owners[workload.UID]; known {
		return owner, true
	}
	return workload, false
}

func (c *town) Workloads() iter.Seq[metric.Workload] {
	return func(yield func(metric.Workload) bool) {
		for controller := range maps.Values(c.controllers) {
			if controller, _ = c.Owner(controller); !yield(controller) {
				return
			}
		}
	}
}

var (
	web    = metric.Workload{Kind: "Deployment", Name: "web", UID: "d1"}
	webOld = metric.Workload{Kind: "ReplicaSet", Name: "web-1", UID: "r1"}
	webNew = metric.Workload{Kind: "ReplicaSet", Name: "web-2", UID: "r2"}
	db     = metric.Workload{Kind: "StatefulSet", Name: "db", UID: "s1"}
)

func newTown() *town {
	return &town{
		controllers: map[string]metric.Workload{"web-1-a": webOld, "web-2-b": webNew, "db-0": db},
		owners:      map[string]metric.Workload{"r1": web, "r2": web},
	}
}

func (m *Tracker) born(pod, name string, kind metric.Kind, pairs ...string) {
	var list []metric.Label
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, metric.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	m.SeriesCreated(&metric.Object{Resource: "pods", Namespace: "shop", Name: pod}, name, kind, metric.NewLabels(list))
}

func with(key, value string) func(metric.Labels) bool {
	return func(l metric.Labels) bool { v, ok := l.Get(key); return ok && v == value }
}

// want fails unless the tracker knows the metric with that kind; metric.NoKind: not at all.
func (m *Tracker) want(t *testing.T, workload metric.Workload, name string, match func(metric.Labels) bool, kind metric.Kind) {
	t.Helper()
	if got := m.PushedKind("shop", workload, name, match); got != kind {
		t.Errorf("%s of %s: %s, want %s", name, workload.Name, got, kind)
	}
	if any := m.AnyPushed("shop", name); match == nil && kind != metric.NoKind && !any {
		t.Errorf("AnyPushed does not know %s", name)
	}
}

func TestRemembersCountersAndSetsOfAWorkload(t *testing.T) {
	m := NewTracker(newTown())
	m.born("web-1-a", "hits", metric.Counter, "path", "/a")
	m.born("web-1-a", "users", metric.Set)
	m.born("web-1-a", "depth", metric.Gauge)
	m.born("web-1-a", "latency", metric.Timer)
	m.born("nobody", "hits", metric.Counter)
	m.want(t, web, "hits", nil, metric.Counter)
	m.want(t, web, "hits", with("path", "/a"), metric.Counter)
	m.want(t, web, "hits", with("path", "/b"), metric.NoKind)
	m.want(t, web, "users", nil, metric.Set)
	m.want(t, web, "depth", nil, metric.NoKind)
	m.want(t, web, "latency", nil, metric.NoKind)
	m.want(t, db, "hits", nil, metric.NoKind)
	m.born("web-2-b", "hits", metric.Counter, "path", "/b") // by another ReplicaSet of the same Deployment
	m.want(t, web, "hits", with("path", "/b"), metric.Counter)
	m.born("web-2-b", "hits", metric.Set)
	m.want(t, web, "hits", nil, metric.Set) // now a set
	m.want(t, web, "hits", with("path", "/a"), metric.NoKind)
	if m.AnyPushed("other", "hits") || m.AnyPushed("shop", "depth") {
		t.Error("it is said to be pushed where it is not")
	}
}

// Metrics pushed before a ReplicaSet's owner is known count for the Deployment as soon as it is.
func TestOwnersAreResolvedLater(t *testing.T) {
	c := newTown()
	clear(c.owners)
	m := NewTracker(c)
	m.born("web-1-a", "hits", metric.Counter)
	m.born("web-2-b", "hits", metric.Counter, "x", "1")
	m.want(t, webOld, "hits", nil, metric.Counter)
	m.ResolveOwners()
	m.want(t, web, "hits", nil, metric.NoKind)
	c.owners["r1"], c.owners["r2"] = web, webNew // r2 has no owner
	m.ResolveOwners()
	m.want(t, web, "hits", nil, metric.Counter)
	m.want(t, web, "hits", with("x", "1"), metric.NoKind)
	m.want(t, webOld, "hits", nil, metric.NoKind)
	m.want(t, webNew, "hits", nil, metric.Counter)
	if len(m.unresolved) != 0 {
		t.Errorf("unsettled: %v", m.unresolved)
	}
}

// A pod of another namespace may name any controller as its own. It changes nothing for that one's pods, neither
// while it lives nor when it has gone.
func TestAControllerHasPodsInItsNamespaceOnly(t *testing.T) {
	c := newTown()
	m := NewTracker(c)
	stranger := metric.Object{Resource: "pods", Namespace: "elsewhere", Name: "db-0"}
	m.SeriesCreated(&stranger, "queries", metric.Set, metric.Labels{})
	m.want(t, db, "queries", nil, metric.NoKind)
	m.born("db-0", "queries", metric.Counter)
	for _, name := range []string{"queries", "hits"} {
		for i := range 2 * maxLabelSets {
			m.SeriesCreated(&stranger, name, metric.Set, metric.NewLabels([]metric.Label{{Key: "n", Value: fmt.Sprint(i)}}))
		}
	}
	m.want(t, db, "queries", nil, metric.Counter)
	m.want(t, db, "hits", nil, metric.NoKind)
	m.born("web-1-a", "hits", metric.Counter)
	delete(c.controllers, "db-0")
	m.expireAsOf(time.Now().Add(25 * time.Hour))
	m.want(t, db, "queries", nil, metric.NoKind)
	m.want(t, web, "hits", nil, metric.Counter)
	if m.AnyPushed("elsewhere", "hits") || len(m.pusherCount) != 1 {
		t.Errorf("left: %v", m.pusherCount)
	}
}

// A workload is kept while it has pods, and for a day afterwards.
func TestWorkloadsWithoutPodsExpire(t *testing.T) {
	c := newTown()
	m := NewTracker(c)
	m.born("web-1-a", "hits", metric.Counter)
	m.born("db-0", "hits", metric.Counter)
	delete(c.controllers, "web-1-a")
	now := time.Now()
	m.expireAsOf(now.Add(48 * time.Hour)) // web-2-b still lives
	delete(c.controllers, "web-2-b")
	m.expireAsOf(now.Add(71 * time.Hour))
	m.want(t, web, "hits", nil, metric.Counter)
	m.expireAsOf(now.Add(73 * time.Hour))
	m.want(t, web, "hits", nil, metric.NoKind)
	m.want(t, db, "hits", nil, metric.Counter)
	delete(c.controllers, "db-0")
	m.expireAsOf(now.Add(98 * time.Hour))
	if m.AnyPushed("shop", "hits") || m.bytes.Held() != 0 || len(m.pusherCount) != 0 {
		t.Errorf("left: %d bytes, %v", m.bytes.Held(), m.pusherCount)
	}
}

func TestDocumentsRestoreEverything(t *testing.T) {
	m := NewTracker(newTown())
	m.born("web-1-a", "hits", metric.Counter, "path", "/a")
	m.born("web-1-a", "hits", metric.Counter, "path", "/b")
	m.born("web-1-a", "users", metric.Set)
	m.born("db-0", "queries", metric.Counter)
	keys := m.Changed(false)
	if len(keys) != 2 || len(m.Changed(false)) != 0 || len(m.Changed(true)) != 2 {
		t.Fatalf("changed: %x, want two once", keys)
	}
	back := NewTracker(newTown())
	for _, key := range keys {
		value, there := m.AppendDocument([]byte("before"), key)
		value, _ = bytes.CutPrefix(value, []byte("before"))
		if !there || !IsDocument(value) {
			t.Fatalf("%q is no document", value)
		}
		for i := range value {
			if err := NewTracker(newTown()).RestoreDocument(key, value[:i]); err == nil {
				t.Fatalf("the first %d of %d bytes were taken", i, len(value))
			}
		}
		if err := back.RestoreDocument(Key{}, value); err == nil {
			t.Error("another workload's key was taken")
		}
		if err := back.RestoreDocument(key, value); err != nil {
			t.Fatal(err)
		}
	}
	back.ResolveOwners()
	back.want(t, web, "hits", with("path", "/b"), metric.Counter)
	back.want(t, web, "users", nil, metric.Set)
	back.want(t, db, "queries", nil, metric.Counter)
	if back.bytes.Held() != m.bytes.Held() || len(back.Changed(false)) != 0 || len(back.Changed(true)) != 2 {
		t.Errorf("%d bytes, want %d", back.bytes.Held(), m.bytes.Held())
	}
	// A removed workload is deleted on disk.
	back.expireAsOf(time.Now())
	delete(back.pods.(*town).controllers, "db-0")
	back.expireAsOf(time.Now().Add(25 * time.Hour))
	gone := back.Changed(false)
	if len(gone) != 1 {
		t.Fatalf("changed: %x, want one", gone)
	}
	if _, there := back.AppendDocument(nil, gone[0]); there {
		t.Error("a forgotten workload has a document")
	}
}

// A document whose key does not depend on the namespace yet is read, and replaced by the next save.
func TestDocumentsGetTheirNamespacesKey(t *testing.T) {
	m := NewTracker(newTown())
	m.born("db-0", "queries", metric.Counter)
	now := m.Changed(false)[0]
	value, _ := m.AppendDocument(nil, now)
	back, former := NewTracker(newTown()), formerKeyOf(db.UID)
	if err := back.RestoreDocument(former, value); err != nil {
		t.Fatal(err)
	}
	back.want(t, db, "queries", nil, metric.Counter)
	if keys := back.Changed(false); len(keys) != 2 || !slices.Contains(keys, former) || !slices.Contains(keys, now) {
		t.Errorf("changed: %x, want %x and %x", keys, former, now)
	}
	if _, there := back.AppendDocument(nil, former); there {
		t.Error("the former key has a document")
	}
	if again, there := back.AppendDocument(nil, now); !there || !bytes.Equal(again, value) {
		t.Errorf("the document is %q, want %q", again, value)
	}
}

// Labels that differ in every pod, and unlimited names, stay within the bounds.
func TestMemoryIsBounded(t *testing.T) {
	m := NewTracker(newTown())
	for i := range 1000 {
		m.born("web-1-a", "hits", metric.Counter, "host", fmt.Sprint(i))
	}
	if n := len(m.records[recordID{"shop", "d1"}].metrics["hits"].labelSets); n != maxLabelSets {
		t.Errorf("%d label sets, want %d", n, maxLabelSets)
	}
	m.want(t, web, "hits", with("host", "999"), metric.NoKind)
	m.want(t, web, "hits", nil, metric.Counter)
	long := strings.Repeat("x", 500)
	for i := range 100_000 {
		m.born("web-1-a", long+fmt.Sprint(i), metric.Counter)
	}
	if m.bytes.Held() > maxWorkload+1000 {
		t.Errorf("%d bytes of a workload, want at most %d", m.bytes.Held(), maxWorkload)
	}
	before, _ := m.AppendDocument(nil, keyOf(recordID{"shop", "d1"}))
	m.Changed(false)
	m.born("web-1-a", "hits", metric.Set)
	if len(before) > maxWorkload || len(m.Changed(false)) > 0 {
		t.Errorf("%d bytes are written when a metric of the workload changes its kind", len(before))
	}
	m.want(t, web, "hits", nil, metric.Counter)
}

// Ever new workloads of one namespace, and of a second one, leave room for those of others.
func TestNamespacesLeaveRoom(t *testing.T) {
	m := NewTracker(newTown())
	long := strings.Repeat("x", 500)
	flood := func(namespace string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, before := 0, int64(-1); m.bytes.Held() > before; i++ {
			before = m.bytes.Held()
			m.addLocked(metric.Workload{Kind: "Job", Name: "j", UID: fmt.Sprint(i)}, namespace, long, metric.Counter, metric.Labels{})
		}
	}
	for n, leaves := range []int64{maxBytes / 5, maxBytes / 20} {
		flood(fmt.Sprint("hostile-", n))
		if left := maxBytes - m.bytes.Held(); left < leaves {
			t.Errorf("%d namespaces leave %d of %d bytes", n+1, left, maxBytes)
		}
	}
	m.born("db-0", "queries", metric.Counter)
	m.want(t, db, "queries", nil, metric.Counter)
	m.expireAsOf(time.Now().Add(25 * time.Hour))
	if known := m.bytes.Of("shop"); m.bytes.Held() != known || m.bytes.Len() != 1 {
		t.Errorf("%d bytes of %d namespaces are counted when all are gone but one of %d", m.bytes.Held(), m.bytes.Len(), known)
	}
}
