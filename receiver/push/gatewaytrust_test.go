package push

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// shopkeeper is who has every address, once it is known; and may speak of its namespace.
type shopkeeper struct{ known atomic.Bool }

var keeper = &metric.Sender{Key: 7, Pod: &metric.Pod{Namespace: "shop", Name: "keeper"}, Known: true}

func (k *shopkeeper) Sender(a netip.Addr) *metric.Sender {
	if !k.known.Load() {
		return nil
	}
	s := *keeper
	s.Address = a
	return &s
}

func (k *shopkeeper) May(s *metric.Sender, _ metric.Verb, o metric.Object) (metric.Reason, string, metric.Right) {
	switch {
	case s == nil || s.Pod == nil:
		return metric.Pending, "127.0.0.1 is not known yet", metric.Right{}
	case o.Namespace != s.Pod.Namespace:
		return metric.Identity, "keeper may speak of shop only", metric.Right{}
	}
	return metric.Applied, "", metric.Right{}
}

func (k *shopkeeper) Needs(*metric.Sample) metric.Right { return metric.Right{} }

func (k *shopkeeper) Explain(s *metric.Sample) string { return "explained: " + string(s.Name) }

func (*shopkeeper) Listed(*metric.Sender) bool { return false }

func (k *shopkeeper) ExplainEnded(*metric.Sample) string { return "" }
func (k *shopkeeper) ExplainLimit(*metric.Sample) string { return "" }

// startShop runs a server that listens inMemory.
func startShop(t *testing.T) (gateway, *shopkeeper) {
	k := &shopkeeper{}
	k.known.Store(true)
	h := start(t, inMemory, func(c *Config, p *Parts) {
		p.Senders, p.Trust = k, k
		c.AdminWipe = true
	})
	return gateway{h}, k
}

// put makes a group of somebody else's.
func (g gateway) put(namespace string) {
	g.Helper()
	a := g.table.newApplier()
	defer a.Close()
	k := group.Key{Namespace: namespace, Labels: metric.NewLabels([]metric.Label{{Key: "job", Value: "a"}, {Key: "namespace", Value: namespace}})}
	if _, r := g.groups.Push(&group.Push{Key: k, Object: metric.Object{Namespace: namespace}, Now: time.Now(), Applier: a}); r != nil {
		g.Fatal(r)
	}
}

// In a cluster, a group is of its sender's namespace, and nobody else's is pushed to, read or
// deleted.
func TestGroupsObeyTrust(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, _ := startShop(t)
		g.put("bank")
		g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
		if g.table.get(metric.Object{Namespace: "shop"}, "x", metric.Label{Key: "job", Value: "a"}, metric.Label{Key: "instance"}) == nil {
			t.Error("it is not in the sender's namespace")
		}
		if g.table.senders["x"] != "127.0.0.1" {
			t.Error("nobody sent it")
		}
		for _, method := range []string{"PUT", "POST", "DELETE"} {
			g.wants(403, `"reason":"identity","message":"keeper may speak of shop only"`, method, "/metrics/job/a/namespace/bank", "")
		}
		g.wants(200, "", "PUT", "/metrics/job/a/namespace/shop", "y{namespace=\"bank\"} 2\n") // a group of its own
		g.wants(200, "", "PUT", "/metrics/job/b", "x{namespace=\"bank\"} 3\n")
		g.wants(403, "", "PUT", "/metrics/job/a/sluice_object/external%2Fbank", "x 2\n")
		g.wants(403, "", "PUT", "/metrics/job/a/sluice_object/nodes%2Fn1", "x 2\n")
		for _, object := range []string{"external%2Fshop", "namespaces%2Fshop"} {
			g.wants(403, `keeper may speak of shop only`, "PUT", "/metrics/job/b/namespace/bank/sluice_object/"+object, "x 2\n")
		}
		g.wants(202, "", "DELETE", "/metrics/job/b/namespace/bank/sluice_object/external%2Fshop", "") // of a former release
		g.exposes(`x{instance="",job="a",namespace="shop"} 1`,
			`x{exported_namespace="bank",instance="",job="b",namespace="shop"} 3`, `y{instance="",job="a",namespace="shop"} 2`)
		for _, path := range []string{"/metrics", "/api/v1/metrics"} {
			_, text := g.ask("GET", path, "")
			own := strings.NewReplacer(`exported_namespace="bank"`, "", `"exported_namespace":"bank"`, "")
			if strings.Contains(own.Replace(text), "bank") {
				t.Errorf("GET %s tells of bank: %s", path, text)
			}
		}
		if n := g.groups.Count(); n != 4 {
			t.Errorf("%d groups, want 4: a refused push made one, or deleted one", n)
		}
		g.wants(202, `"deleted":3`, "PUT", "/api/v1/admin/wipe", "")
		if n := g.groups.Count(); n != 1 {
			t.Errorf("%d groups, want that of bank", n)
		}
	})
}

// Deletions of groups that don't exist take the share of a namespace that their sender may write, whatever other namespace
// their path names: they have no deletion of that one forgotten.
func TestDeletionsTakeTheShareOfTheirSender(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		k := &shopkeeper{}
		k.known.Store(true)
		g := gateway{start(t, inMemory, func(_ *Config, p *Parts) {
			p.Senders, p.Trust = k, k
			p.Groups.Replicate("a", p.Logger)
		})}
		key := func(job, object string) group.Key {
			labels := []metric.Label{{Key: "job", Value: job}, {Key: group.NamespaceLabel, Value: "bank"}}
			if object != "" {
				labels = append(labels, metric.Label{Key: group.ObjectLabel, Value: object})
			}
			return group.Key{Namespace: "bank", Labels: metric.NewLabels(labels)}
		}
		g.put("bank")
		real := key("a", "")
		if !g.groups.Delete(real, metric.Object{Namespace: "bank"}) {
			t.Fatal("bank has no group")
		}
		time.Sleep(time.Second)
		const many = 450 // more than replicas remember of groups whose hashes begin alike
		for i, n := 0, 0; n < many; i++ {
			job := strconv.Itoa(i)
			if key(job, "external/shop").Hash()[0] == real.Hash()[0] {
				n++
				g.wants(202, "", "DELETE", "/metrics/job/"+job+"/namespace/bank/sluice_object/external%2Fshop", "")
			}
		}
		kept := g.groups.AllShared()
		if !slices.ContainsFunc(kept, func(d group.Document) bool { return d.Key == real.Hash() }) {
			t.Errorf("a deletion of bank is forgotten, among %d", len(kept))
		}
	})
}

// A push whose sender's address the cluster view does not know waits a moment for it.
func TestGroupsWaitForTheirSender(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, k := startShop(t)
		k.known.Store(false)
		began := time.Now()
		res := g.wants(503, `"reason":"pending"`, "PUT", "/metrics/job/a", "x 1\n")
		if took := time.Since(began); res.Header.Get("Retry-After") != "1" || took != DefaultConfig().PendingTimeout {
			t.Errorf("Retry-After %q after %v", res.Header.Get("Retry-After"), took)
		}
		began = time.Now()
		time.AfterFunc(time.Second, func() { k.known.Store(true) })
		g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("a sender that is known after a second waits for %v", took)
		}
		g.exposes(`x{instance="",job="a",namespace="shop"} 1`)
		k.known.Store(false)
		g.exposes()
		stranger, waits := netip.MustParsePrefix("10.6.6.6/32"), 0
		for g.server.gateway.Waiting.Acquire(stranger) == nil {
			waits++
		}
		began = time.Now()
		g.wants(503, `"reason":"pending"`, "DELETE", "/metrics/job/a", "")
		if took := time.Since(began); waits != 32 || took == 0 {
			t.Errorf("%d pushes of one address wait, and one of another for %v", waits, took)
		}
		for range 256 { // as many as may wait
			_ = g.server.gateway.Waiting.Acquire(netip.Prefix{})
		}
		began = time.Now()
		g.wants(503, `"reason":"pending"`, "DELETE", "/metrics/job/a", "")
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited for %v though as many do as may", took)
		}
	})
}

// A group whose namespace is its sender's waits for it: it is neither filed nor rejected before, whatever is trusted. One
// of a sender that the configuration lists, whose address may never be known, does not wait.
func TestGroupsWaitForTheirNamespace(t *testing.T) {
	for name, listed := range map[string]bool{"unknown": false, "listed": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				k := &shopkeeper{}
				g := gateway{start(t, inMemory, func(_ *Config, p *Parts) { p.Senders, p.Trust = k, open{k, listed} })}
				g.wants(200, "", "PUT", "/metrics/job/a/namespace/shop", "x 1\n")
				began := time.Now()
				time.AfterFunc(time.Second, func() { k.known.Store(true) })
				g.wants(200, "", "PUT", "/metrics/job/a", "x 1\n")
				waited, at := time.Since(began) >= time.Second, g.groups.All(nil)[0].Key.Namespace
				if waited == listed || at != map[bool]string{false: "shop", true: ""}[listed] {
					t.Errorf("it waited: %v, and is in %q", waited, at)
				}
			})
		})
	}
	inVirtualTime(t, func(t *testing.T) {
		g, k := startShop(t)
		k.known.Store(false)
		g.wants(503, "/namespace/{namespace}", "PUT", "/metrics/job/a/sluice_object/pods%2Fweb-1", "x 1\n")
		time.AfterFunc(time.Second, func() { k.known.Store(true) })
		g.wants(200, "", "PUT", "/metrics/job/a/sluice_object/pods%2Fweb-1", "x 1\n")
	})
}

// open trusts everybody.
type open struct {
	*shopkeeper
	listed bool
}

func (open) May(*metric.Sender, metric.Verb, metric.Object) (metric.Reason, string, metric.Right) {
	return metric.Applied, "", metric.Right{}
}

func (o open) Listed(*metric.Sender) bool { return o.listed }

// A rejection by the table for the sender's rights is a fault of the push, and of no group.
func TestGroupRefusedByTheTable(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, _ := startShop(t)
		g.table.refuse["no"], g.table.refuse["later"] = metric.Identity, metric.Pending
		g.wants(403, `"message":"explained: no"`, "PUT", "/metrics/job/a", "no 1\n")
		if res := g.wants(503, `"reason":"pending"`, "PUT", "/metrics/job/a", "later 1\n"); res.Header.Get("Retry-After") != "1" {
			t.Error("it may not come again")
		}
		if n := g.groups.Count(); n != 0 {
			t.Errorf("%d groups", n)
		}
		if n := g.rejected(metric.Identity); n != 2 {
			t.Errorf("%d refused, want 2", n)
		}
	})
}
