package cluster

import (
	"testing"
	"time"
)

// Killed while it is scaled out, Sluice is back before the autoscaler could act on anything but
// what it was: the replicas do not move.
func survivesAKill(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "killed")
	c.Apply(t, ns, example(t, "hpa-pods.yaml", ns))
	c.AwaitPods(t, ns, "app=web", 1)
	c.startLoad(t, ns, "app=web", 35, requests)
	c.wantReplicas(t, ns, "web", 4)
	c.steady(t, ns, "web", 4, 12*time.Second) // the share of each pod has settled
	for range 2 {
		c.sluice.Kill()
		began := time.Now()
		c.sluice.Start()
		t.Logf("ready %v after it was killed", time.Since(began).Round(time.Millisecond))
		c.steady(t, ns, "web", 4, 20*time.Second)
	}
	c.noWarningsNow(t, ns, "web")
}

// The pod that pushed is gone, then Sluice is killed: the others of its Deployment read 0 before
// and after. A Deployment of which nobody ever pushed reads nothing.
func remembersAcrossAKill(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "remembered")
	c.Apply(t, ns, deployment("web"), deployment("quiet"))
	first := c.AwaitPods(t, ns, "app=web", 1)[0]
	c.awaitSender(t, ns, first.Name)
	c.sendFrom(t, addressOf(t, first), "hits:5|c|#path:/api\nusers:bob|s\ndepth:7|g")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/depth", map[string]float64{first.Name: 7})
	c.deletePod(t, ns, first.Name)
	second := c.AwaitPods(t, ns, "app=web", 1)[0]
	zero := func(when string) {
		t.Helper()
		for _, path := range []string{"*/hits:count", "*/users", second.Name + "/hits", "*/hits?metricLabelSelector=path%3Dapi", "*/hits?labelSelector=app%3Dweb"} {
			c.wantValues(t, "/namespaces/"+ns+"/pods/"+path, map[string]float64{second.Name: 0})
		}
		for _, path := range []string{"*/depth", "*/hits?labelSelector=app%3Dquiet", "*/hits?metricLabelSelector=path%3Dother", "*/hits:total"} {
			if got, err := c.values(t, "/namespaces/"+ns+"/pods/"+path); err == nil {
				t.Errorf("%s: %s reads %v, want nothing", when, path, got)
			}
		}
	}
	zero("once the pod that pushed is gone")
	time.Sleep(3 * time.Second) // more than between two flushes
	c.sluice.Kill()
	c.sluice.Start()
	zero("after a kill")
}
