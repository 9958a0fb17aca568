package cluster

import (
	"testing"
	"time"
)

// Killed while it is scaled out, Sluice is back before the autoscaler could act on anything but what it was: the replicas do
// not move.
func survivesAKill(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "killed")
	c.Apply(t, ns, example(t, "hpa-pods.yaml", ns))
	c.AwaitPods(t, ns, "app=web", 1)
	c.startLoad(t, ns, "app=web", 35, requests)
	c.wantReplicas(t, ns, "web", 4, 90*time.Second)
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
